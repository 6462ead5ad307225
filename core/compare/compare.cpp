#include "core/compare/compare.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/compare/peak_memory.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/run/run_names.hpp"
#include "core/run/steady_step.hpp"
#include "core/timeline/check_times.hpp"
#include "core/timeline/places.hpp"

namespace foreshard {
namespace {

/// As timed_step(); null where its end on the device is not known.
const StepRecord* ended_step(const Run& run, const WantedStep& wanted) {
  const StepRecord* step = timed_step(run, wanted);
  return step != nullptr && step->device_end ? step : nullptr;
}

tl::unexpected<Error> no_such_step(const Run& run, char side, std::int32_t step) {
  std::set<std::int32_t> have;
  for (const StepRecord& record : run.steps) have.insert(record.index);
  std::string list;
  for (const std::int32_t index : have) list += (list.empty() ? "" : ", ") + std::to_string(index);
  return fail(ErrorKind::usage, std::string(1, side) + " has no step " + std::to_string(step), run.info.name,
              list.empty() ? "it has no steps" : "it has " + list);
}

TimedStep timed(const Run& run, const StepRecord& record, const std::optional<Nanoseconds>& reported) {
  const DeviceSpan span = *device_span(run, record);
  TimedStep step{record.recording, record.index, span.begin, span.end, {}, {}, {}, {}};
  step.reported = reported.value_or(step.end - step.begin);
  return step;
}

/// One run with what is looked up again and again.
struct Side {
  const Run& run;
  const StepRecord* time;
  std::optional<StepRecord> memory = {};
};

struct LaneTime {
  Nanoseconds time;
  std::uint64_t ops = 0;
};
using LaneKey = std::tuple<TimeLane, std::string, std::string>;
using LaneTimes = std::map<LaneKey, LaneTime>;

LaneTimes lane_times(const Run& run, const StepRecord& step, const Places& places) {
  LaneTimes out;
  std::map<std::string, std::uint64_t> issued;
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.issue < step.start || op.issue >= step.end) continue;
    LaneTime& lane = out[{places.lane(op), places.phase(op), places.unit(op)}];
    lane.time += op.end - op.start;
    ++lane.ops;
    ++issued[places.phase(op)];
  }
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != step.recording || phase.step != step.index) continue;
    LaneTime& lane = out[{TimeLane::host, phase.name, {}}];
    lane.time += phase.end - phase.start;
    lane.ops = issued[phase.name];
  }
  return out;
}

/// Names in the order of A, then what only B has.
class Order {
 public:
  void add(const std::string& name) { places_.emplace(name, places_.size()); }
  [[nodiscard]] std::size_t operator[](const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? places_.size() : found->second;
  }

 private:
  std::map<std::string, std::size_t> places_;
};

/// Of the compared steps, by begin.
Order phase_order(const Side& a, const Side& b) {
  Order order;
  for (const Side& side : {a, b})
    for (const PhaseRecord& phase : side.run.phases)
      if (side.time != nullptr && phase.recording == side.time->recording && phase.step == side.time->index)
        order.add(phase.name);
  return order;
}

Order unit_order(const Run& a, const Run& b) {
  Order order;
  for (const Run* run : {&a, &b})
    for (const Unit& unit : run->units) order.add(unit.name.empty() ? "root" : unit.name);
  return order;
}

/// The step's time by phase, as `plan` and `explain --time` have it; all of it is `other` where that is not known, and
/// the step says why.
std::vector<PhaseTime> phases_of(const Side& side, TimedStep& step) {
  const auto explanation = explain_time(side.run, side.time->index);
  if (!explanation) {
    step.unexplained = explanation.error().what;
    return {{{}, {}, {}, {}, {}, {}, step.end - step.begin}};
  }
  std::vector<PhaseTime> phases = phase_times(side.run, *explanation);
  step.contention_unknown = explanation->kernel_contention_unknown;
  step.allocator = total(phases).allocator;
  return phases;
}

/// Those that are there.
std::vector<std::pair<TimeCause, Nanoseconds>> causes_of(const PhaseTime& time) {
  std::vector<std::pair<TimeCause, Nanoseconds>> out{{TimeCause::isolated_compute, time.compute - time.contention},
                                                     {TimeCause::kernel_contention, time.contention},
                                                     {TimeCause::exposed_communication, time.exposed_communication},
                                                     {TimeCause::host, time.host},
                                                     {TimeCause::other, time.other}};
  std::erase_if(out, [](const auto& cause) { return cause.second.count == 0; });
  return out;
}

/// By phase and cause, in order; `a` and `b` are added to.
class Breakdown {
 public:
  explicit Breakdown(const Order& phases) : phases_(phases) {}
  BreakdownRow& row(const std::string& phase, TimeCause cause) {
    return rows_.try_emplace({phases_[phase], phase, cause}, BreakdownRow{phase, cause, {}, {}}).first->second;
  }
  [[nodiscard]] std::vector<BreakdownRow> rows() const {
    std::vector<BreakdownRow> out;
    for (const auto& [key, value] : rows_) out.push_back(value);
    return out;
  }

 private:
  const Order& phases_;
  std::map<std::tuple<std::size_t, std::string, TimeCause>, BreakdownRow> rows_;
};

using OneSide = Nanoseconds BreakdownRow::*;

/// Every part of a step, the untraced one too: they add up to its reported time.
void add_parts(Breakdown& breakdown, OneSide side, const std::vector<PhaseTime>& phases, const TimedStep& step) {
  for (const PhaseTime& time : phases)
    for (const auto& [cause, part] : causes_of(time)) breakdown.row(time.phase, cause).*side += part;
  const Nanoseconds untraced = step.reported - (step.end - step.begin);
  if (untraced.count != 0) breakdown.row({}, TimeCause::untraced).*side += untraced;
}

/// The causes of a recording's side are those of its plan at its own settings, and what is left is the model's bias.
void add_modelled(Breakdown& breakdown, const Order& order, OneSide side, const std::vector<PhaseTime>& recorded,
                  const TimedStep& step, const Side& model, Comparison& out) {
  const OneSide other = side == &BreakdownRow::a ? &BreakdownRow::b : &BreakdownRow::a;
  const std::vector<PhaseTime> planned = phases_of(model, *out.model);
  add_parts(breakdown, side, planned, *out.model);
  Breakdown bias(order);
  add_parts(bias, side, recorded, step);
  add_parts(bias, other, planned, *out.model);
  out.bias = bias.rows();
  for (const BreakdownRow& row : out.bias)
    breakdown.row(row.phase, TimeCause::model_bias).*side += row.*side - row.*other;
}

void add_breakdown(const Side& a, const Side& b, const Order& phases, const CompareRequest& request, Comparison& out) {
  const Run* of = request.model_a != nullptr ? request.model_a : request.model_b;
  const Side model{of != nullptr ? *of : a.run, of != nullptr ? ended_step(*of, {}) : nullptr};
  if (model.time != nullptr) out.model = timed(model.run, *model.time, request.reported_model);
  Breakdown breakdown(phases);
  const std::vector<PhaseTime> of_a = phases_of(a, *out.a.time);
  const std::vector<PhaseTime> of_b = phases_of(b, *out.b.time);
  if (out.model && request.model_a != nullptr)
    add_modelled(breakdown, phases, &BreakdownRow::a, of_a, *out.a.time, model, out);
  else
    add_parts(breakdown, &BreakdownRow::a, of_a, *out.a.time);
  if (out.model && request.model_a == nullptr)
    add_modelled(breakdown, phases, &BreakdownRow::b, of_b, *out.b.time, model, out);
  else
    add_parts(breakdown, &BreakdownRow::b, of_b, *out.b.time);
  out.breakdown = breakdown.rows();
}

void add_lanes(const Side& a, const Side& b, const Order& phases, const Order& units, Comparison& out) {
  const UnitMarks of_a = unit_marks(a.run, a.time->recording);
  const UnitMarks of_b = unit_marks(b.run, b.time->recording);
  const Places places_a(a.run, a.time->recording, shared_marks(of_a, of_b));
  const Places places_b(b.run, b.time->recording, shared_marks(of_b, of_a));
  std::map<std::tuple<TimeLane, std::size_t, std::string, std::size_t, std::string>, LaneRow> lanes;
  const auto lane = [&](const LaneKey& key) -> LaneRow& {
    const auto& [lane_of, phase, unit] = key;
    return lanes.try_emplace({lane_of, phases[phase], phase, units[unit], unit}, LaneRow{lane_of, phase, unit, {}, {}})
        .first->second;
  };
  for (const auto& [key, value] : lane_times(a.run, *a.time, places_a)) {
    lane(key).a = value.time;
    lane(key).ops_a = value.ops;
  }
  for (const auto& [key, value] : lane_times(b.run, *b.time, places_b)) {
    lane(key).b = value.time;
    lane(key).ops_b = value.ops;
  }
  for (const auto& [key, value] : lanes) out.lanes.push_back(value);
}

void add_memory(const Side& a, const Side& b, const Order& units, Comparison& out) {
  const PeakMemory of_a = out.a.memory ? peak_memory(a.run, *a.memory, *out.a.memory) : PeakMemory{};
  const PeakMemory of_b = out.b.memory ? peak_memory(b.run, *b.memory, *out.b.memory) : PeakMemory{};
  const auto value = [](const auto& values, const auto& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::int64_t{0} : found->second;
  };
  for (std::size_t i = 0; i < EnumNames<MemoryCategory>::kNames.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    out.categories.push_back(
        {std::string(name(category)), value(of_a.categories, category), value(of_b.categories, category)});
  }
  out.categories.push_back({std::string(kBeforeRecording), of_a.before_recording, of_b.before_recording});
  std::erase_if(out.categories, [](const MemoryRow& row) { return row.a == 0 && row.b == 0; });
  std::stable_sort(out.categories.begin(), out.categories.end(),
                   [](const MemoryRow& x, const MemoryRow& y) { return std::max(x.a, x.b) > std::max(y.a, y.b); });
  std::map<std::pair<std::size_t, std::string>, MemoryRow> rows;
  for (const PeakMemory* side : {&of_a, &of_b})
    for (const auto& [unit, bytes] : side->units)
      rows[{units[unit], unit}] = {unit, value(of_a.units, unit), value(of_b.units, unit)};
  for (const auto& [key, row] : rows)
    if (row.a != 0 || row.b != 0) out.units.push_back(row);
}

std::optional<PeakStep> peak_step(const std::optional<StepRecord>& record, const Run& run) {
  if (!record || run.allocator.empty()) return std::nullopt;
  return PeakStep{record->recording, record->index, record->peaks, record->num_alloc_retries, {}};
}

}  // namespace

Result<Comparison> compare_runs(const Run& a, const Run& b, const CompareRequest& request) {
  for (const Run* run : {&a, &b, request.model_a, request.model_b})
    if (run != nullptr) FORESHARD_TRY(check_times(*run));
  const Side side_a{a, ended_step(a, request.step_a),
                    memory_step(a, request.memory_a ? request.memory_a : request.step_a)};
  const Side side_b{b, ended_step(b, request.step_b),
                    memory_step(b, request.memory_b ? request.memory_b : request.step_b)};
  if (request.step_a && side_a.time == nullptr && !side_a.memory) return no_such_step(a, 'A', *request.step_a);
  if (request.step_b && side_b.time == nullptr && !side_b.memory) return no_such_step(b, 'B', *request.step_b);
  Comparison out;
  if (side_a.time != nullptr) out.a.time = timed(a, *side_a.time, request.reported_a);
  if (side_b.time != nullptr) out.b.time = timed(b, *side_b.time, request.reported_b);
  out.a.memory = peak_step(side_a.memory, a);
  out.b.memory = peak_step(side_b.memory, b);
  const Order units = unit_order(a, b);
  if (out.a.time && out.b.time) {
    const Order phases = phase_order(side_a, side_b);
    add_breakdown(side_a, side_b, phases, request, out);
    add_lanes(side_a, side_b, phases, units, out);
  }
  if (out.a.memory || out.b.memory) add_memory(side_a, side_b, units, out);
  return out;
}

BreakdownRow total(const std::vector<BreakdownRow>& rows) {
  BreakdownRow sum;
  for (const BreakdownRow& row : rows) {
    sum.a += row.a;
    sum.b += row.b;
  }
  return sum;
}

BreakdownRow total(const std::vector<BreakdownRow>& rows, TimeCause cause) {
  BreakdownRow sum{{}, cause, {}, {}};
  for (const BreakdownRow& row : rows) {
    if (row.cause != cause) continue;
    sum.a += row.a;
    sum.b += row.b;
  }
  return sum;
}

}  // namespace foreshard
