#include "sim/predict/step_floor.hpp"

#include <cstdint>
#include <map>

namespace foreshard::sim {

StepFloor step_floor(const DeviceLog& log, std::size_t steps) {
  std::int64_t compute = 0;
  std::map<std::uint32_t, std::int64_t> links;  // by communicator
  for (const DeviceLog::Call& call : log.calls()) {
    if (call.kind != DeviceLog::Kind::submit) continue;
    const EngineOp& op = log.ops()[call.a];
    if (op.communicator.valid())
      links[op.communicator.value] += op.work.count;
    else if (op.stream == kComputeStream)
      compute += op.work.count;
  }
  std::int64_t most = 0;
  for (const auto& [communicator, work] : links) most = std::max(most, work);
  const auto each = [&](std::int64_t count) { return Nanoseconds{count}.ms() / static_cast<double>(steps); };
  return {each(compute), each(most), 0};
}

}  // namespace foreshard::sim
