#include "core/explain_time/waited_kinds.hpp"

#include <algorithm>
#include <map>

namespace foreshard {

std::vector<WaitedKind> waited_kinds(const Run& run, const TimeExplanation& explanation) {
  std::map<CollectiveKind, Nanoseconds> waited;
  for (const IdlePart& part : explanation.parts) {
    if (!is_communication(part.cause) || part.op == kNoDeviceOp) continue;
    const DeviceOpRecord& op = run.device_ops[part.op];
    if (op.kind == DeviceOpRecord::Kind::collective) waited[op.collective] += part.length();
  }
  std::vector<WaitedKind> out;
  for (const auto& [kind, time] : waited) out.push_back({kind, time});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return out;
}

}  // namespace foreshard
