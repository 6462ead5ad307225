#include "traces/capture/hook_marks.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

using Kind = HookMark::Kind;

// How many ranges of each sort start before a place in the list: tells what a user's range holds.
struct Counts {
  std::uint32_t zero_grad = 0;
  std::uint32_t forward = 0;
  std::uint32_t root_forward = 0;
  std::uint32_t backward = 0;
  std::uint32_t final_callback = 0;
  std::uint32_t optimizer = 0;
};

Counts operator-(const Counts& a, const Counts& b) {
  return {a.zero_grad - b.zero_grad,           a.forward - b.forward,
          a.root_forward - b.root_forward,     a.backward - b.backward,
          a.final_callback - b.final_callback, a.optimizer - b.optimizer};
}

void count(Counts& counts, RangeKind kind) {
  switch (kind) {
    case RangeKind::zero_grad:
      ++counts.zero_grad;
      break;
    case RangeKind::optimizer_step:
      ++counts.optimizer;
      break;
    case RangeKind::root_pre_forward:
      ++counts.root_forward;
      ++counts.forward;
      break;
    case RangeKind::pre_forward:
    case RangeKind::post_forward:
      ++counts.forward;
      break;
    case RangeKind::pre_backward:
    case RangeKind::accumulate:
      ++counts.backward;
      break;
    case RangeKind::root_post_backward:
      ++counts.final_callback;
      ++counts.backward;
      break;
    default:
      break;
  }
}

std::optional<Kind> kind_of_user_range(const Counts& held) {
  if (held.zero_grad > 0 && held.forward + held.backward + held.optimizer == 0) return Kind::user_begin;
  if (held.optimizer > 0 && held.forward + held.backward + held.zero_grad == 0) return Kind::user_optimizer;
  if (held.optimizer + held.zero_grad > 0) return std::nullopt;
  if (held.root_forward == 1 && held.backward == 0) return Kind::user_forward;
  // A forward inside is a checkpointed module's, gathered again for its recomputation.
  if (held.final_callback == 1 && held.root_forward == 0) return Kind::user_backward;
  return std::nullopt;
}

std::optional<Kind> kind_of_fsdp_range(RangeKind kind) {
  switch (kind) {
    case RangeKind::zero_grad:
      return Kind::zero_grad;
    case RangeKind::optimizer_step:
      return Kind::optimizer_step;
    case RangeKind::root_pre_forward:
      return Kind::root_pre_forward;
    case RangeKind::pre_forward:
      return Kind::pre_forward;
    case RangeKind::post_forward:
      return Kind::post_forward;
    case RangeKind::pre_backward:
      return Kind::pre_backward;
    case RangeKind::accumulate:
      return Kind::post_backward;
    case RangeKind::root_post_backward:
      return Kind::final_callback;
    case RangeKind::cast_outputs:
      return Kind::cast_outputs;
    default:
      return std::nullopt;
  }
}

// Ends that are still to come, earliest first; of equal ones the inner range's first.
struct PendingEnd {
  Nanoseconds time;
  std::size_t range = 0;
  HookMark mark;
  bool operator>(const PendingEnd& other) const {
    if (time != other.time) return time > other.time;
    return range < other.range;
  }
};
using PendingEnds = std::priority_queue<PendingEnd, std::vector<PendingEnd>, std::greater<>>;

/// A range that marks a place, and the unit that it names.
struct Found {
  std::size_t range = 0;
  Kind kind = Kind::zero_grad;
  UnitId unit;  // invalid: it names none
};

/// What a range is of its hook's.
struct Part {
  bool first = true;
  bool last = true;
};

/// A hook of a unit with several parameter groups is a range of each, one behind the other with no other mark between:
/// one mark from the first's start to the last's end. Where the recording began or ended between them the rest is no
/// hook: neither first nor last. By `found`.
std::vector<Part> parts_of(std::span<const Found> found, std::span<const Unit> units) {
  std::vector<Found> marks;
  std::vector<std::size_t> at;  // of `found`, by mark
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].kind < Kind::zero_grad || found[i].kind == Kind::cast_outputs) continue;
    marks.push_back(found[i]);
    at.push_back(i);
  }
  std::vector<Part> out(found.size());
  for (std::size_t begin = 0, end = 0; begin < marks.size(); begin = end) {
    const auto same = [&](const Found& mark) {
      return mark.unit == marks[begin].unit && mark.kind == marks[begin].kind;
    };
    const auto first = marks.begin() + static_cast<std::ptrdiff_t>(begin);
    end = static_cast<std::size_t>(std::find_if_not(first, marks.end(), same) - marks.begin());
    const std::size_t groups = marks[begin].unit.valid() ? units[marks[begin].unit.value].groups.size() : 1;
    if (groups < 2) continue;
    const std::size_t cut = (end - begin) % groups;
    const std::size_t whole = begin == 0 ? begin + cut : begin;  // where the first whole hook begins
    for (std::size_t i = begin; i < end; ++i) {
      const bool in_hook = i >= whole && i < whole + (end - begin - cut);
      const std::size_t place = (i - whole) % groups;
      out[at[i]] = {in_hook && place == 0, in_hook && place + 1 == groups};
    }
  }
  return out;
}

/// Of the ranges that mark a place, in their order. `before` by range: what starts before it.
Result<std::vector<Found>> find_marks(std::span<const Range> ranges, std::span<const RangeMeaning> meanings,
                                      std::span<const Counts> before, std::span<const Unit> units) {
  const UnitNames names(units);
  std::vector<Found> out;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    std::optional<Kind> kind = kind_of_fsdp_range(meanings[i].kind);
    if (meanings[i].kind == RangeKind::user) {
      const auto after = std::partition_point(ranges.begin() + static_cast<std::ptrdiff_t>(i), ranges.end(),
                                              [&](const Range& other) { return other.start < range.end; });
      kind = kind_of_user_range(before[static_cast<std::size_t>(after - ranges.begin())] - before[i]);
    }
    if (!kind) continue;
    Found found{i, *kind, {}};
    if (has_unit(meanings[i].kind)) {
      const auto unit = names.find(meanings[i].unit);
      if (!unit)
        return fail(ErrorKind::mismatch,
                    "an annotation names the FSDP unit '" + std::string(meanings[i].unit) +
                        "', which is not among the " + std::to_string(units.size()) + " units given",
                    "annotation '" + std::string(range.name) + "'",
                    "give the about file that was written by the same program as this recording");
      found.unit = *unit;
    }
    out.push_back(found);
  }
  return out;
}

}  // namespace

Result<HookMarks> hook_marks(std::span<const Range> ranges, std::span<const Unit> units) {
  HookMarks out;
  std::vector<RangeMeaning> meanings;
  std::vector<Counts> before(1);
  for (const Range& range : ranges) {
    meanings.push_back(meaning_of(range.name));
    before.push_back(before.back());
    count(before.back(), meanings.back().kind);
    if (meanings.back().kind == RangeKind::unknown) ++out.unknown;
  }
  const bool root_has_ranges = std::any_of(meanings.begin(), meanings.end(), [](const RangeMeaning& m) {
    return m.kind == RangeKind::pre_forward && m.unit.empty();
  });
  out.root_is_empty = !root_has_ranges && !units.empty() && units.front().parameters.empty();
  out.has_root_pre_forward = before.back().root_forward > 0;

  auto found = find_marks(ranges, meanings, before, units);
  FORESHARD_TRY(found);
  const std::vector<Part> parts = parts_of(*found, units);
  PendingEnds pending;
  const auto flush = [&](Nanoseconds until) {
    for (; !pending.empty() && pending.top().time <= until; pending.pop()) out.marks.push_back(pending.top().mark);
  };
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto& [at, kind, unit] = (*found)[i];
    flush(ranges[at].start);
    if (parts[i].first) out.marks.push_back({kind, false, ranges[at].start, unit});
    if (parts[i].last) pending.push({ranges[at].end, at, {kind, true, ranges[at].end, unit}});
  }
  flush(Nanoseconds{INT64_MAX});
  return out;
}

}  // namespace foreshard::traces
