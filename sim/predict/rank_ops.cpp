#include "sim/predict/rank_ops.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace foreshard::sim {
namespace {

/// The last of `periods` that begins at or before `at`; null: none.
template <class Period>
const Period* period_at(const std::vector<Period>& periods, Nanoseconds at) {
  const auto after = std::upper_bound(periods.begin(), periods.end(), at,
                                      [](Nanoseconds time, const Period& period) { return time < period.start; });
  return after == periods.begin() ? nullptr : &*std::prev(after);
}

}  // namespace

void append_rank_ops(const Run& of, std::uint32_t rank, const std::vector<std::uint32_t>& groups,
                     const StepRange& steps, Run& run) {
  std::map<std::pair<CommunicatorId, std::int32_t>, std::int32_t> next;
  std::vector<RankOpRecord> rows;
  for (const DeviceOpRecord& op : of.device_ops) {
    RankOpRecord row;
    row.rank = rank;
    row.op = op;
    const StepRecord* step = period_at(of.steps, op.issue);
    if (step == nullptr || step->index < steps.first || step->index > steps.last) continue;
    row.step = step->index;
    const PhaseRecord* phase = period_at(of.phases, op.issue);
    if (phase != nullptr && phase->step == row.step && op.issue <= phase->end)
      row.phase = run.labels.intern(phase->name);
    if (op.label.valid() && &of != &run) row.op.label = run.labels.intern(of.labels.text(op.label));
    if (op.kind == DeviceOpRecord::Kind::collective && op.communicator.valid()) {
      row.op.communicator = CommunicatorId{groups[op.communicator.value]};
      row.sequence = next[{row.op.communicator, row.step}]++;
    }
    rows.push_back(row);
  }
  run.ranks.push_back({rank, {}, {}});
  run.rank_ops.insert(run.rank_ops.end(), rows.begin(), rows.end());
}

void end_open_ops(Run& run) {
  Nanoseconds last;
  const auto see = [&last](const DeviceOpRecord& op) {
    last = std::max(last, op.end == OpTiming::kNever ? op.start : op.end);
  };
  for (const StepRecord& step : run.steps) last = std::max(last, step.end);
  for (const DeviceOpRecord& op : run.device_ops) see(op);
  for (const RankOpRecord& row : run.rank_ops) see(row.op);
  const auto end = [&](DeviceOpRecord& op) {
    if (op.end == OpTiming::kNever) op.end = last;
  };
  for (DeviceOpRecord& op : run.device_ops) end(op);
  for (RankOpRecord& row : run.rank_ops) end(row.op);
}

}  // namespace foreshard::sim
