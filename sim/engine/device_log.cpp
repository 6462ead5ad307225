#include "sim/engine/device_log.hpp"

namespace foreshard::sim {

void DeviceLog::submit(const EngineOp& op, std::uint32_t same_as) {
  auto index = static_cast<std::uint32_t>(ops_.size());
  if (same_as != kOnce) index = index_of_.try_emplace({same_as, op.stream.value}, index).first->second;
  if (index == ops_.size()) ops_.push_back(op);
  call(Kind::submit, index);
}

}  // namespace foreshard::sim
