#include "core/explain_time/phase_times.hpp"

#include <algorithm>

#include "core/run/phase_words.hpp"
#include "core/timeline/places.hpp"

namespace foreshard {
namespace {

class Rows {
 public:
  PhaseTime& operator[](const std::string& phase) {
    const auto known = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) { return row.phase == phase; });
    if (known != rows_.end()) return *known;
    rows_.push_back({phase, {}, {}, {}, {}, {}, {}});
    return rows_.back();
  }
  std::vector<PhaseTime> taken() {
    std::erase_if(rows_, [](const PhaseTime& row) { return row.sum() == Nanoseconds{}; });
    return std::move(rows_);
  }

 private:
  std::vector<PhaseTime> rows_;
};

/// The ops that compute, each from where the ones before it end.
void add_compute(const Run& run, const Places& places, const TimeExplanation& explanation, Rows& rows) {
  std::vector<const DeviceOpRecord*> ops;
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective && op.end > explanation.begin &&
        op.start < explanation.end)
      ops.push_back(&op);
  std::stable_sort(ops.begin(), ops.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
  Nanoseconds until = explanation.begin;
  for (const DeviceOpRecord* op : ops) {
    const Nanoseconds from = std::max(op->start, until);
    const Nanoseconds to = std::min(op->end, explanation.end);
    if (to <= from) continue;
    rows[places.phase(*op)].compute += to - from;
    until = to;
  }
}

}  // namespace

std::vector<PhaseTime> phase_times(const Run& run, const TimeExplanation& explanation) {
  Rows rows;
  for (const PhaseRecord& phase : run.phases)
    if (phase.recording == explanation.recording && phase.step == explanation.step) rows[phase.name];
  const Places places(run, explanation.recording);
  add_compute(run, places, explanation, rows);
  for (const auto& [phase, time] : explanation.contention_of_phase) {
    PhaseTime& row = rows[phase];
    row.contention = std::min(time, row.compute);
  }
  for (const IdlePart& part : explanation.parts) {
    PhaseTime& row = rows[part.phase];
    row.exposed_communication += part.exposed;
    (is_host(part.cause) ? row.host : row.other) += part.length() - part.exposed;
    if (part.cause == IdleCause::allocator) row.allocator += part.length() - part.exposed;
  }
  return rows.taken();
}

Nanoseconds cpu_optimizer_time(const Run& run, const TimeExplanation& explanation) {
  Nanoseconds sum;
  if (!run.settings.offload) return sum;
  for (const IdlePart& part : explanation.parts)
    if (is_host(part.cause) && part.phase == kOptimizerPhase) sum += part.length() - part.exposed;
  return sum;
}

PhaseTime total(const std::vector<PhaseTime>& rows) {
  PhaseTime sum;
  for (const PhaseTime& row : rows) {
    sum.compute += row.compute;
    sum.contention += row.contention;
    sum.exposed_communication += row.exposed_communication;
    sum.host += row.host;
    sum.allocator += row.allocator;
    sum.other += row.other;
  }
  return sum;
}

}  // namespace foreshard
