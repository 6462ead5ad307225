#include "traces/infer/recorded_units.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

/// A range holds a handful of requests more than its unit has parameters. Bounds what a hostile recording can cost.
constexpr std::uint32_t kLongestWindow = 100'000;
constexpr std::size_t kTries = 4;

/// Places [first, last) among the requests.
struct Window {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// First ranges of a unit, by kind.
struct UnitRanges {
  const Range* all_gather = nullptr;
  const Range* copy_out = nullptr;
  const Range* post_forward = nullptr;
  const Range* pre_backward = nullptr;
  const Range* reduce = nullptr;
  std::size_t pre_backwards = 0;   ///< before its first reduction
  std::size_t post_backwards = 0;  ///< the same; a unit whose output needs no gradient has but these
};

class Reader {
 public:
  Reader(std::span<const CaptureEvent> events, std::span<const Range> ranges) : events_(events), ranges_(ranges) {}

  std::vector<RecordedUnit> read() {
    skip_cut_step();
    name_units();
    for (RecordedUnit& unit : units_) {
      const UnitRanges& of = of_unit_[unit.name];
      read_gather(of, unit.gather);
      unit.reduces = of.reduce != nullptr;
      if (unit.reduces) read_reduction(*of.reduce, unit.reduction);
      unit.reduction.accumulated = std::max(of.pre_backwards, of.post_backwards) > 1;
      read_reshard(of, unit);
    }
    return std::move(units_);
  }

 private:
  void skip_cut_step();
  void name_units();
  void note(const Range& range, RangeKind kind, UnitRanges& of);
  [[nodiscard]] Window window(const Range& range) const;
  void read_gather(const UnitRanges& of, RecordedGather& gather) const;
  [[nodiscard]] bool read_copy_out(const Range& range, Bytes block, RecordedGather& gather) const;
  void read_block(const Window& in, RecordedGather& gather) const;
  void read_reduction(const Range& range, RecordedReduction& reduction) const;
  void read_outputs(std::uint32_t at, std::uint32_t last, RecordedReduction& reduction) const;
  void read_reshard(const UnitRanges& of, RecordedUnit& unit) const;
  [[nodiscard]] bool is_freed_at_once(std::uint32_t i) const {
    return i + 1 < events_.size() && events_[i].allocates && events_[i].partner == i + 1;
  }

  std::span<const CaptureEvent> events_;
  std::span<const Range> ranges_;
  std::vector<RecordedUnit> units_;
  std::map<std::string, UnitRanges, std::less<>> of_unit_;
  std::optional<Nanoseconds> first_backward_;
};

void Reader::note(const Range& range, RangeKind kind, UnitRanges& of) {
  const auto keep = [&](const Range*& slot) {
    if (slot == nullptr) slot = &range;
  };
  switch (kind) {
    case RangeKind::all_gather:
      return keep(of.all_gather);
    case RangeKind::copy_out:
      return keep(of.copy_out);
    case RangeKind::post_forward:
      return keep(of.post_forward);
    case RangeKind::accumulate:
      of.post_backwards += of.reduce == nullptr ? 1 : 0;
      return;
    case RangeKind::reduce:
      return keep(of.reduce);
    case RangeKind::pre_backward:
      if (!first_backward_) first_backward_ = range.start;
      of.pre_backwards += of.reduce == nullptr ? 1 : 0;
      return keep(of.pre_backward);
    default:
      return;
  }
}

/// A recording that began inside a step: its first gathers may be backward's, and forward comes after a backward.
void Reader::skip_cut_step() {
  bool inside = false;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const RangeKind kind = meaning_of(ranges_[i].name).kind;
    if (kind == RangeKind::root_pre_forward) {
      if (inside) ranges_ = ranges_.subspan(i);
      return;
    }
    inside |= kind == RangeKind::pre_forward || kind == RangeKind::post_forward || kind == RangeKind::pre_backward ||
              kind == RangeKind::accumulate || kind == RangeKind::reduce || kind == RangeKind::root_post_backward;
  }
}

/// The root has no name in its ranges. Others come in the order of their first pre-forward, then those that only
/// other ranges name.
void Reader::name_units() {
  units_.push_back({});
  of_unit_.emplace("", UnitRanges{});
  const auto add = [&](const RangeMeaning& meaning) -> UnitRanges& {
    const auto [it, fresh] = of_unit_.emplace(std::string(meaning.unit), UnitRanges{});
    if (fresh) units_.push_back({.name = it->first, .gather = {}, .reduction = {}});
    return it->second;
  };
  for (const Range& range : ranges_)
    if (const RangeMeaning meaning = meaning_of(range.name); meaning.kind == RangeKind::pre_forward) add(meaning);
  for (const Range& range : ranges_)
    if (const RangeMeaning meaning = meaning_of(range.name); has_unit(meaning.kind))
      note(range, meaning.kind, add(meaning));
}

Window Reader::window(const Range& range) const {
  const auto first = std::lower_bound(events_.begin(), events_.end(), range.start,
                                      [](const CaptureEvent& e, Nanoseconds time) { return e.time < time; });
  const auto last = std::upper_bound(first, events_.end(), range.end,
                                     [](Nanoseconds time, const CaptureEvent& e) { return time < e.time; });
  const auto from = static_cast<std::uint32_t>(first - events_.begin());
  return {from, std::min(static_cast<std::uint32_t>(last - events_.begin()), from + kLongestWindow)};
}

/// The block is the request of the gather's range whose size the storages of the copy-out fill: the largest but where
/// the user's requests of the same microsecond are in the way.
void Reader::read_gather(const UnitRanges& of, RecordedGather& gather) const {
  if (of.all_gather == nullptr || of.copy_out == nullptr) return;
  const Window in = window(*of.all_gather);
  std::vector<std::uint32_t> by_size;
  for (std::uint32_t i = in.first; i < in.last; ++i)
    if (events_[i].allocates) by_size.push_back(i);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return events_[a].size > events_[b].size; });
  if (by_size.size() > kTries) by_size.resize(kTries);
  for (const std::uint32_t i : by_size) {
    if (!read_copy_out(*of.copy_out, events_[i].size, gather)) continue;
    gather.block_request = i;
    return read_block(in, gather);
  }
}

/// Storages in a row on the compute stream, then the metadata, which is freed at once.
bool Reader::read_copy_out(const Range& range, Bytes block, RecordedGather& gather) const {
  const Window in = window(range);
  std::size_t tries = 0;
  for (std::uint32_t metadata = in.last; metadata-- > in.first && tries < kTries;) {
    if (!is_freed_at_once(metadata) || events_[metadata].stream != 0) continue;
    ++tries;
    Bytes sum = 0;
    std::uint32_t first = metadata;
    while (first > in.first && sum < block && events_[first - 1].allocates && events_[first - 1].stream == 0)
      sum += events_[--first].size;
    if (sum != block) continue;
    gather.metadata = events_[metadata].size;
    for (std::uint32_t i = first; i < metadata; ++i) {
      gather.unsharded.push_back(events_[i].size);
      gather.unsharded_requests.push_back(i);
    }
    return !gather.unsharded.empty();
  }
  return false;
}

void Reader::read_block(const Window& in, RecordedGather& gather) const {
  const CaptureEvent& block = events_[gather.block_request];
  gather.block = block.size;
  gather.stream = block.stream;
  for (std::uint32_t i = in.first; i < gather.block_request; ++i) {
    const CaptureEvent& e = events_[i];
    if (!e.allocates || e.stream != block.stream) continue;
    const bool ends_inside =
        e.partner != CaptureEvent::kNone && e.partner > gather.block_request && e.partner < in.last;
    if (ends_inside && e.size > 0 && block.size % e.size == 0 && e.size < block.size) gather.flat_cast = e.size;
  }
}

/// Input, metadata that is freed at once, frees of all gradients but the last from the back to the front
/// (FullyShard::reduce), then the outputs.
void Reader::read_reduction(const Range& range, RecordedReduction& reduction) const {
  const Window in = window(range);
  for (std::uint32_t i = in.first; i + 2 < in.last; ++i) {
    if (!events_[i].allocates || events_[i].stream != 0 || !is_freed_at_once(i + 1)) continue;
    reduction.input = events_[i].size;
    reduction.input_request = i;
    std::uint32_t at = i + 3;
    for (; at < in.last && !events_[at].allocates && events_[at].stream == 0; ++at)
      reduction.gradients.push_back(events_[at].size);
    reduction.count = reduction.gradients.size() + 1;
    std::reverse(reduction.gradients.begin(), reduction.gradients.end());
    return read_outputs(at, in.last, reduction);
  }
}

/// The output, the cast back with the free of the output, and the free of the last gradient.
void Reader::read_outputs(std::uint32_t at, std::uint32_t last, RecordedReduction& reduction) const {
  if (at >= last || !events_[at].allocates) return;
  const CaptureEvent& output = events_[at];
  reduction.output = output.size;
  for (std::uint32_t i = at + 1; i < last; ++i) {
    const CaptureEvent& e = events_[i];
    const bool is_cast = e.allocates && e.stream != 0 && (e.size == 2 * output.size || 2 * e.size == output.size);
    if (is_cast && reduction.cast_output == 0) {
      reduction.cast_output = e.size;
      reduction.cast_elsewhere = e.stream != output.stream;
    }
    if (!e.allocates && e.stream == 0 && e.partner != CaptureEvent::kNone) {
      reduction.gradients.push_back(e.size);
      return;
    }
  }
}

/// Whether the first gather's storages are freed before backward, and what post-forward keeps of them.
void Reader::read_reshard(const UnitRanges& of, RecordedUnit& unit) const {
  if (unit.gather.unsharded_requests.empty() || !first_backward_) return;
  const std::uint32_t first = unit.gather.unsharded_requests.front();
  const std::uint32_t freed = events_[first].partner;
  unit.kept = freed == CaptureEvent::kNone || events_[freed].time >= *first_backward_;
  if (of.post_forward == nullptr || freed == CaptureEvent::kNone) return;
  const Bytes size = unit.gather.unsharded.front();
  if (freed == 0 || unit.kept || events_[freed - 1].time < of.post_forward->start) return;
  const CaptureEvent& clone = events_[freed - 1];  // clone, then the free of what was cloned, one by one
  if (clone.allocates && clone.size > 0 && clone.size < size && size % clone.size == 0 && clone.stream == 0)
    unit.clones = static_cast<std::uint32_t>(size / clone.size);
}

}  // namespace

std::vector<RecordedUnit> recorded_units(std::span<const CaptureEvent> events, std::span<const Range> ranges) {
  return Reader(events, ranges).read();
}

}  // namespace foreshard::traces
