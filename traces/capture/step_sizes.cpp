#include "traces/capture/step_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "traces/capture/profiled_sizes.hpp"

namespace foreshard::traces {
namespace {

using Sizes = std::vector<Bytes>;

/// Of one step, in order.
struct Requests {
  Sizes activations;
  Sizes all;     ///< up to the optimizer
  Sizes inputs;  ///< those that outlive the step included
};

/// Blocks that the step itself frees before its optimizer ends: a recording may end there, and does not show how long
/// others of its last step live.
Requests requests_of(const std::vector<PlacedOp>& ops) {
  std::vector<bool> freed;
  for (const auto& [op, position, late, unmarked, no_effect, segment] : ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::optimizer_end) break;
    if (op.kind != OpKind::free || op.steps_ago > 0 || op.from_setup || op.before_recording) continue;
    if (op.tensor.value >= freed.size()) freed.resize(op.tensor.value + 1);
    freed[op.tensor.value] = true;
  }
  Requests out;
  for (const auto& [op, position, late, unmarked, no_effect, segment] : ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::optimizer_begin) break;
    if (op.kind != OpKind::alloc || op.gradient_of.valid()) continue;
    if (op.category == MemoryCategory::inputs) out.inputs.push_back(op.size.bytes);
    if (op.tensor.value >= freed.size() || !freed[op.tensor.value]) continue;
    out.all.push_back(op.size.bytes);
    if (op.category == MemoryCategory::activations) out.activations.push_back(op.size.bytes);
  }
  return out;
}

HookPlaces hook_places_of(const std::vector<PlacedOp>& ops) {
  HookPlaces out;
  for (const PlacedOp& placed : ops)
    if (placed.op.kind == OpKind::hook && !placed.unmarked) out.emplace_back(placed.op.hook, placed.op.unit);
  return out;
}

std::uint32_t cycle_of(std::span<const std::size_t> size_of) {
  std::size_t cycle = 1;
  const auto repeats = [&] {
    for (std::size_t k = 1 + cycle; k < size_of.size(); ++k)
      if (size_of[k] != size_of[k - cycle]) return false;
    return true;
  };
  while (cycle + 1 < size_of.size() && !repeats()) ++cycle;
  return static_cast<std::uint32_t>(cycle);
}

/// Which of the inputs holds the tokens: one of a step has the settings' size.
std::optional<std::size_t> tokens_input(std::span<const Requests> steps, Bytes bytes) {
  for (const Requests& step : steps) {
    const auto found = std::find(step.inputs.begin(), step.inputs.end(), bytes);
    if (found != step.inputs.end()) return static_cast<std::size_t>(found - step.inputs.begin());
  }
  return std::nullopt;
}

std::vector<RecordedStep> shapes_of(std::span<const Requests> steps, const Settings& settings) {
  std::vector<RecordedStep> out(steps.size());
  if (!settings.batch || !settings.seq) return out;
  const Bytes sample = kTokenBytes * *settings.batch;
  const auto input = tokens_input(steps, sample * *settings.seq);
  for (std::size_t k = 0; input && k < steps.size(); ++k) {
    const Sizes& inputs = steps[k].inputs;
    if (*input >= inputs.size() || inputs[*input] % sample != 0 || inputs[*input] / sample > UINT32_MAX) continue;
    out[k].batch = *settings.batch;
    out[k].seq = static_cast<std::uint32_t>(inputs[*input] / sample);
  }
  return out;
}

double grown(double near, double other, const TimesSource& source) {
  const double slope = source.other ? (other - near) / (source.other_size - 1) : near;
  const double square = source.size * source.size;
  return std::clamp(near + slope * (source.size - 1), near * std::min(1.0, square), near * std::max(1.0, square));
}

bool same_ops(const StepTiming& a, const StepTiming& b) {
  const auto same = [](const TimedItem& x, const TimedItem& y) { return x.kind == y.kind; };
  return std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [&](const TimedSegment& x, const TimedSegment& y) {
                      return std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), same);
                    });
}

double user_work(const StepTiming& timing) {
  double work = 0;
  for (const TimedSegment& segment : timing.segments)
    for (const TimedItem& item : segment.items)
      work += static_cast<double>(item.kernel.work.count + item.copy.work.count);
  return work;
}

}  // namespace

HookPlaces hook_places(const StepTiming& timing) {
  HookPlaces out;
  for (const TimedSegment& segment : timing.segments) out.emplace_back(segment.hook, segment.unit);
  return out;
}

StepSizes step_sizes(std::span<const std::vector<PlacedOp>> steps, const Settings& settings) {
  StepSizes out;
  std::vector<Requests> requests;
  std::map<std::pair<HookPlaces, Sizes>, std::size_t> numbers;
  for (const std::vector<PlacedOp>& step : steps) {
    const Sizes& activations = requests.emplace_back(requests_of(step)).activations;
    const auto [place, fresh] = numbers.emplace(std::pair{hook_places_of(step), activations}, numbers.size());
    if (fresh) {
      out.hooks.push_back(place->first.first);
      out.bytes.push_back(0);
      for (const Bytes bytes : activations) out.bytes.back() += bytes;
    }
    out.size_of.push_back(place->second);
  }
  out.differ = out.bytes.size() > 1;
  for (std::size_t k = 2; k < requests.size(); ++k) out.differ |= requests[k].all != requests[1].all;
  if (!out.differ) return out;
  out.cycle = cycle_of(out.size_of);
  out.steps = shapes_of(requests, settings);
  return out;
}

TimesSources times_sources(const StepSizes& sizes, std::span<const StepTiming* const> profiled) {
  const ProfiledSizes found = profiled_sizes(sizes, profiled);
  const std::vector<double>& bytes = found.bytes;
  TimesSources out;
  out.assumed = found.assumed;
  for (const std::size_t size : found.size_of)
    out.size_of.push_back(size == ProfiledSizes::kNone ? std::nullopt : std::optional(size));
  std::vector<HookPlaces> hooks;
  for (const StepTiming* timing : profiled) hooks.push_back(hook_places(*timing));
  for (std::size_t s = 0; s < sizes.bytes.size(); ++s) {
    TimesSource& source = out.of.emplace_back();
    const double own = std::max(1.0, static_cast<double>(sizes.bytes[s]));
    const auto same_hooks = [&](std::size_t i) { return sizes.hooks.empty() || sizes.hooks[s] == hooks[i]; };
    const auto distance = [&](std::size_t i) { return std::pair{!same_hooks(i), std::abs(std::log(own / bytes[i]))}; };
    std::vector<std::size_t> order(profiled.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
    source.step = order.front();
    source.size = own / bytes[source.step];
    source.profiled = found.size_of[source.step] == s;
    source.same_hooks = same_hooks(source.step);
    for (const std::size_t i : order)
      if (!source.other && bytes[i] != bytes[source.step] && same_hooks(i)) source.other = i;
    if (source.other) source.other_size = bytes[*source.other] / bytes[source.step];
  }
  return out;
}

StepTiming scaled_timing(const StepTiming& near, const StepTiming* other, const TimesSource& source) {
  StepTiming out = near;
  const bool by_op = other != nullptr && same_ops(near, *other);
  const double total = std::max(1.0, user_work(near));
  const double alike = grown(total, other != nullptr ? user_work(*other) : total, source) / total;
  for (std::size_t s = 0; s < out.segments.size(); ++s)
    for (std::size_t i = 0; i < out.segments[s].items.size(); ++i) {
      TimedItem& item = out.segments[s].items[i];
      const TimedItem* twin = by_op ? &other->segments[s].items[i] : nullptr;
      const auto scale = [&](Nanoseconds& work, Nanoseconds twin_work) {
        const auto mine = static_cast<double>(work.count);
        work =
            Nanoseconds::from_double(by_op ? grown(mine, static_cast<double>(twin_work.count), source) : mine * alike);
      };
      scale(item.kernel.work, twin != nullptr ? twin->kernel.work : Nanoseconds{});
      scale(item.copy.work, twin != nullptr ? twin->copy.work : Nanoseconds{});
      item.collective.bytes = static_cast<Bytes>(static_cast<double>(item.collective.bytes) * source.size);
    }
  return out;
}

}  // namespace foreshard::traces
