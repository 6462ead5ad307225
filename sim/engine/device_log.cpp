#include "sim/engine/device_log.hpp"

namespace foreshard::sim {

void DeviceLog::submit(const EngineOp& op, std::uint32_t same_as) {
  auto index = static_cast<std::uint32_t>(ops_.size());
  if (same_as != kOnce) index = index_of_.try_emplace({same_as, op.stream.value}, index).first->second;
  if (index == ops_.size()) ops_.push_back(op);
  call(Kind::submit, index);
}

void DeviceLog::price(const CollectiveRequest& request) {
  const auto [at, is_new] = index_of_request_.try_emplace(request, static_cast<std::uint32_t>(requests_.size()));
  if (is_new) requests_.push_back(request);
  priced_.push_back(at->second);
}

}  // namespace foreshard::sim
