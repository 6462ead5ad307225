#include "sim/tune/exposed.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/explain_time/time_words.hpp"

namespace foreshard::sim {
namespace {

std::optional<std::uint32_t> unit_of(const Run& run, const std::string& name) {
  if (name == "root") return 0;
  for (std::uint32_t u = 1; u < run.units.size(); ++u)
    if (run.units[u].name == name) return u;
  return std::nullopt;
}

}  // namespace

Result<Waits> waits_of(const Run& run, SlowedKernels slowed) {
  const auto time = explain_time(run, {}, slowed);
  FORESHARD_TRY(time);
  std::map<std::tuple<CollectiveKind, std::uint32_t, bool>, std::map<IdleCause, std::int64_t>> waits;
  for (const IdlePart& part : time->parts) {
    if (!is_communication(part.cause) || part.op == kNoDeviceOp) continue;
    const DeviceOpRecord& op = run.device_ops[part.op];
    const auto unit = unit_of(run, part.unit);
    if (op.kind != DeviceOpRecord::Kind::collective || !unit) continue;
    waits[{op.collective, *unit, part.phase != "forward"}][part.cause] += part.length().count;
  }
  Waits out{{}, time_headline(run, *time), run.units};
  for (const auto& [place, causes] : waits) {
    Exposed one{std::get<0>(place), std::get<1>(place), std::get<2>(place)};
    std::int64_t most = -1;
    for (const auto& [cause, length] : causes) {
      one.ms += Nanoseconds{length}.ms();
      if (length > most) one.cause = cause;
      most = std::max(most, length);
    }
    out.exposed.push_back(one);
  }
  std::stable_sort(out.exposed.begin(), out.exposed.end(),
                   [](const Exposed& a, const Exposed& b) { return a.ms > b.ms; });
  return out;
}

}  // namespace foreshard::sim
