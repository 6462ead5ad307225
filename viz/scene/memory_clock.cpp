#include "viz/scene/memory_clock.hpp"

#include <algorithm>
#include <optional>

namespace foreshard::viz {
namespace {

/// When the compute stream ran what the host issued in [from, to).
struct Ran {
  Nanoseconds start, end;
};

std::optional<Ran> compute_of(const Run& run, Nanoseconds from, Nanoseconds to) {
  std::optional<Ran> out;
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.stream != kComputeStream || op.issue < from || op.issue >= to) continue;
    if (!out) out = {op.start, op.end};
    out->start = std::min(out->start, op.start);
    out->end = std::max(out->end, op.end);
  }
  return out;
}

std::vector<const PhaseRecord*> phases_of(const Run& run, const StepRecord& step) {
  std::vector<const PhaseRecord*> out;
  for (const PhaseRecord& phase : run.phases)
    if (phase.recording == step.recording && phase.step == step.index) out.push_back(&phase);
  return out;
}

class Knots {
 public:
  Knots(const Run& run, MemoryOver over) : run_(run), over_(over) {}

  void add(const SteppedPair& pair) {
    const auto begin = begin_of(pair.lanes->start, pair.lanes->end);
    if (!begin) return;
    knot(pair.memory->start, *begin);
    const auto memory = phases_of(run_, *pair.memory), lanes = phases_of(run_, *pair.lanes);
    for (std::size_t i = 0; i < std::min(memory.size(), lanes.size()) && memory[i]->name == lanes[i]->name; ++i)
      if (const auto phase = begin_of(lanes[i]->start, lanes[i]->end)) knot(memory[i]->start, *phase);
    // The end, unless the next step of the lanes begins before it: then that is the knot.
    end_ = {pair.memory->end, pair.lanes->end};
    if (over_ == MemoryOver::gpu) end_->axis = compute_of(run_, pair.lanes->start, pair.lanes->end)->end;
  }

  std::vector<ClockKnot> take() {
    if (end_) knot(end_->memory, end_->axis);
    return std::move(knots_);
  }

 private:
  [[nodiscard]] std::optional<Nanoseconds> begin_of(Nanoseconds from, Nanoseconds to) const {
    if (over_ == MemoryOver::host) return from;
    const auto ran = compute_of(run_, from, to);
    return ran ? std::optional(ran->start) : std::nullopt;
  }

  void knot(Nanoseconds memory, Nanoseconds axis) {
    if (knots_.empty() || (memory > knots_.back().memory && axis > knots_.back().axis))
      knots_.push_back({memory, axis});
  }

  const Run& run_;
  MemoryOver over_;
  std::vector<ClockKnot> knots_;
  std::optional<ClockKnot> end_;
};

}  // namespace

std::vector<ClockKnot> clock_knots(const Run& run, const std::vector<SteppedPair>& pairs, MemoryOver over) {
  Knots knots(run, over);
  for (const SteppedPair& pair : pairs) knots.add(pair);
  return knots.take();
}

Nanoseconds placed(const std::vector<ClockKnot>& knots, Nanoseconds time) {
  const auto next = std::upper_bound(knots.begin(), knots.end(), time,
                                     [](Nanoseconds at, const ClockKnot& knot) { return at < knot.memory; });
  if (next == knots.begin()) return knots.front().axis + (time - knots.front().memory);
  const ClockKnot& from = *std::prev(next);
  if (next == knots.end()) return from.axis + (time - from.memory);
  const double share =
      static_cast<double>((time - from.memory).count) / static_cast<double>((next->memory - from.memory).count);
  return from.axis + Nanoseconds::from_double(share * static_cast<double>((next->axis - from.axis).count));
}

}  // namespace foreshard::viz
