#include "sim/predict/bound_by.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/straggler/straggler.hpp"

namespace foreshard::sim {
namespace {

/// Of those that cost more than `least` alone. None where one of them is a link's or other traffic's.
std::optional<SlowerRanks> together(const Prediction& p, double least) {
  std::set<std::uint32_t> ranks;
  std::vector<std::string> what;
  for (const RankCost& cost : p.rank_costs) {
    if (cost.alone_ms <= least) continue;
    if (cost.ranks.empty()) return std::nullopt;
    ranks.insert(cost.ranks.begin(), cost.ranks.end());
    what.push_back(cost.what);
  }
  if (ranks.empty()) return std::nullopt;
  if (what.size() < p.rank_costs.size()) what.emplace_back("what else differs");
  return SlowerRanks{{ranks.begin(), ranks.end()},
                     fmt::format("{} and {}", fmt::join(what.begin(), what.end() - 1, ", "), what.back()),
                     p.step_ms - p.step_alike_ms};
}

}  // namespace

std::optional<SlowerRanks> slower_ranks(const Prediction& p) {
  const double least = kLateShareOfStep * p.step_ms;
  if (!p.has_time || p.rank_costs.empty() || p.step_ms - p.step_alike_ms <= least) return std::nullopt;
  const RankCost& most =
      *std::max_element(p.rank_costs.begin(), p.rank_costs.end(),
                        [](const RankCost& a, const RankCost& b) { return a.beside_ms < b.beside_ms; });
  std::optional<SlowerRanks> out =
      most.beside_ms > least ? SlowerRanks{most.ranks, most.what, most.beside_ms} : together(p, least);
  if (!out || out->ranks.empty() || 2 * out->ranks.size() > p.run.settings.world()) return std::nullopt;
  return out;
}

bool host_binds(const Prediction& p) {
  return p.host_bound && p.step_ms > kHostLengthens * p.gpu_step_ms;
}

BoundBy Prediction::bound_by() const {
  if (slower_ranks(*this)) return BoundBy::ranks;
  if (host_binds(*this)) return BoundBy::host;
  return communication_ms > compute_ms ? BoundBy::links : BoundBy::gpu;
}

}  // namespace foreshard::sim
