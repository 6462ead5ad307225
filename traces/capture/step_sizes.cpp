#include "traces/capture/step_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace foreshard::traces {
namespace {

using Sizes = std::vector<Bytes>;

/// Of one step, in order.
struct Requests {
  Sizes activations;
  Sizes all;     ///< up to the optimizer
  Sizes inputs;  ///< those that outlive the step included
};

/// Blocks that the step itself frees: of others the recording of the last step does not show how long they live.
Requests requests_of(const std::vector<PlacedOp>& ops) {
  std::vector<bool> freed;
  for (const auto& [op, position, unmarked, no_effect, segment] : ops) {
    if (op.kind != OpKind::free || op.steps_ago > 0 || op.from_setup || op.before_recording) continue;
    if (op.tensor.value >= freed.size()) freed.resize(op.tensor.value + 1);
    freed[op.tensor.value] = true;
  }
  Requests out;
  for (const auto& [op, position, unmarked, no_effect, segment] : ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::optimizer_begin) break;
    if (op.kind != OpKind::alloc || op.gradient_of.valid()) continue;
    if (op.category == MemoryCategory::inputs) out.inputs.push_back(op.size.bytes);
    if (op.tensor.value >= freed.size() || !freed[op.tensor.value]) continue;
    out.all.push_back(op.size.bytes);
    if (op.category == MemoryCategory::activations) out.activations.push_back(op.size.bytes);
  }
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

double blocks_of(const StepTiming& timing) {
  double blocks = 0;
  for (const TimedSegment& segment : timing.segments)
    for (const TimedItem& item : segment.items)
      if (item.kind == OpKind::kernel && item.kernel.kernel_class == KernelClass::memory_bound)
        blocks += static_cast<double>(item.blocks);
  return std::max(1.0, blocks);
}

bool fits(const AttentionShape& shape, const RecordedStep& step) {
  if (step.batch != 0 && step.batch != shape.batch) return false;
  return std::any_of(shape.tile_sizes.begin(), shape.tile_sizes.end(),
                     [&](std::uint32_t tile) { return (std::uint64_t{step.seq} + tile - 1) / tile == shape.tiles; });
}

/// Which size each profiled step has: those that their attention allows, at the least difference of ratios.
class Assignment {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  Assignment(const StepSizes& sizes, std::span<const StepTiming* const> profiled) : sizes_(sizes) {
    std::vector<std::size_t> count(sizes.bytes.size());
    std::vector<RecordedStep> shape(sizes.bytes.size());
    for (std::size_t k = 0; k < sizes.size_of.size(); ++k) {
      ++count[sizes.size_of[k]];
      if (k < sizes.steps.size()) shape[sizes.size_of[k]] = sizes.steps[k];
    }
    for (const StepTiming* timing : profiled) {
      blocks_.push_back(blocks_of(*timing));
      std::vector<std::size_t>& allowed = allowed_.emplace_back();
      for (std::size_t s = 0; s < sizes.bytes.size(); ++s)
        if (!timing->attention || shape[s].seq == 0 || fits(*timing->attention, shape[s])) allowed.push_back(s);
      // Of sizes that fit alike the most frequent comes first.
      std::stable_sort(allowed.begin(), allowed.end(),
                       [&](std::size_t a, std::size_t b) { return count[a] > count[b]; });
      if (allowed.empty()) allowed.push_back(kNone);
    }
    descend(0);
  }

  [[nodiscard]] const std::vector<std::size_t>& best() const { return best_; }
  [[nodiscard]] const std::vector<double>& blocks() const { return blocks_; }
  /// More than one size fits the only step, or ratios fit none.
  [[nodiscard]] bool assumed() const {
    return cost_ > kSameRatio || (allowed_.size() == 1 && allowed_.front().size() > 1);
  }

 private:
  static constexpr double kSameRatio = 0.05;  // of logarithms: tiles of a grid round sizes up
  static constexpr std::size_t kMaxTries = 100'000;

  /// Branch and bound over the steps' sizes; `cost` is that of those chosen.
  void descend(double cost) {
    const std::size_t step = chosen_.size();
    if (!best_.empty() && (cost >= cost_ || ++tries_ > kMaxTries)) return;
    if (step == allowed_.size()) {
      cost_ = cost;
      best_ = chosen_;
      return;
    }
    for (const std::size_t size : allowed_[step]) {
      const double more = cost_of(step, size);
      chosen_.push_back(size);
      descend(cost + more);
      chosen_.pop_back();
    }
  }

  /// Of a step's size beside those of the steps before it.
  [[nodiscard]] double cost_of(std::size_t step, std::size_t size) const {
    double cost = 0;
    for (std::size_t j = 0; j < step && size != kNone; ++j)
      if (chosen_[j] != kNone)
        cost += std::abs(std::log(blocks_[step] / blocks_[j]) - std::log(bytes(size) / bytes(chosen_[j])));
    return cost;
  }
  [[nodiscard]] double bytes(std::size_t size) const {
    return static_cast<double>(std::max<Bytes>(1, sizes_.bytes[size]));
  }

  const StepSizes& sizes_;
  std::vector<double> blocks_;
  std::vector<std::vector<std::size_t>> allowed_;
  std::vector<std::size_t> chosen_;
  std::vector<std::size_t> best_;
  double cost_ = 0;
  std::size_t tries_ = 0;
};

/// Of each profiled step, in bytes of activations: of its size, or by the grids of one that has a size.
std::vector<double> profiled_bytes(const StepSizes& sizes, const Assignment& found) {
  const std::vector<std::size_t>& of = found.best();
  const auto known = static_cast<std::size_t>(
      std::find_if(of.begin(), of.end(), [](std::size_t s) { return s != Assignment::kNone; }) - of.begin());
  std::vector<double> out;
  for (std::size_t i = 0; i < of.size(); ++i) {
    // None is linked: the first is as large as the largest.
    const std::size_t link = known < of.size() ? known : 0;
    const Bytes linked =
        known < of.size() ? sizes.bytes[of[link]] : *std::max_element(sizes.bytes.begin(), sizes.bytes.end());
    const double own = of[i] != Assignment::kNone
                           ? static_cast<double>(sizes.bytes[of[i]])
                           : static_cast<double>(linked) * found.blocks()[i] / found.blocks()[link];
    out.push_back(std::max(1.0, own));
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

StepSizes step_sizes(std::span<const std::vector<PlacedOp>> steps, const Settings& settings) {
  StepSizes out;
  std::vector<Requests> requests;
  std::map<Sizes, std::size_t> numbers;
  for (const std::vector<PlacedOp>& step : steps) {
    const Sizes& activations = requests.emplace_back(requests_of(step)).activations;
    const auto [place, fresh] = numbers.emplace(activations, numbers.size());
    if (fresh) {
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
  const Assignment found(sizes, profiled);
  const std::vector<double> bytes = profiled_bytes(sizes, found);
  const auto linked = [](std::size_t s) { return s != Assignment::kNone; };
  TimesSources out;
  out.assumed = found.assumed() || std::none_of(found.best().begin(), found.best().end(), linked);
  for (std::size_t s = 0; s < sizes.bytes.size(); ++s) {
    TimesSource& source = out.of.emplace_back();
    const double own = std::max(1.0, static_cast<double>(sizes.bytes[s]));
    const auto distance = [&](std::size_t i) { return std::abs(std::log(own / bytes[i])); };
    std::vector<std::size_t> order(profiled.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
    source.step = order.front();
    source.size = own / bytes[source.step];
    source.profiled = found.best()[source.step] == s;
    for (const std::size_t i : order)
      if (!source.other && bytes[i] != bytes[source.step]) source.other = i;
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
