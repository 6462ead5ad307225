#include "gpu/bootstrap/unauthenticated_count.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace foreshard::gpu {

void UnauthenticatedCount::add(const std::string& address) {
  ++number_;
  const auto known = by_address_.find(address);
  if (known != by_address_.end())
    ++known->second;
  else if (by_address_.size() < kMaxAddresses)
    by_address_.emplace(address, 1);
}

std::string UnauthenticatedCount::text() const {
  constexpr std::size_t kNamed = 4;
  if (number_ == 0) return {};
  std::vector<std::pair<std::string, std::uint64_t>> most(by_address_.begin(), by_address_.end());
  std::stable_sort(most.begin(), most.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = fmt::format("{} connection{} did not prove that {} the run's secret:", number_,
                                number_ == 1 ? "" : "s", number_ == 1 ? "it knows" : "they know");
  std::uint64_t left = number_;
  for (std::size_t i = 0; i < std::min(kNamed, most.size()); ++i) {
    out += fmt::format("{} {} from {}", i == 0 ? "" : ",", most[i].second, most[i].first);
    left -= most[i].second;
  }
  if (left > 0) out += fmt::format(", {} from elsewhere", left);
  return out;
}

}  // namespace foreshard::gpu
