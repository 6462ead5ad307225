#include "traces/capture/roots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

/// What one root gathers between the start of its forward and the next root's, or a backward.
struct Forward {
  std::set<std::uint64_t> streams;  ///< raw handles of those of its own
  std::vector<std::string_view> units;
};

/// The stream of the largest request in a range, which is a gather's block; 0: the default one, or there is none.
std::uint64_t stream_of_block(std::span<const CaptureEvent> events, const Range& range) {
  auto event = std::lower_bound(events.begin(), events.end(), range.start,
                                [](const CaptureEvent& e, Nanoseconds time) { return e.time < time; });
  Bytes largest = 0;
  std::uint64_t stream = 0;
  for (; event != events.end() && event->time <= range.end; ++event) {
    if (!event->allocates || event->size <= largest) continue;
    largest = event->size;
    stream = event->stream;
  }
  return stream;
}

std::string shown(const Forward& forward) {
  const auto named = std::find_if(forward.units.begin(), forward.units.end(), [](auto name) { return !name.empty(); });
  if (named == forward.units.end()) return "one without units inside it";
  const std::size_t others = forward.units.size() - 1;
  return others == 0 ? fmt::format("that of '{}'", *named)
                     : fmt::format("that of '{}' and {} more unit{}", *named, others, others == 1 ? "" : "s");
}

bool are_apart(const Forward& a, const Forward& b) {
  return !a.streams.empty() && !b.streams.empty() &&
         std::none_of(a.streams.begin(), a.streams.end(), [&](std::uint64_t s) { return b.streams.contains(s); });
}

}  // namespace

std::string two_roots(std::span<const CaptureEvent> events, std::span<const Range> ranges) {
  Forward before;
  Forward now;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    const bool backward = meaning.kind == RangeKind::pre_backward || meaning.kind == RangeKind::accumulate;
    if (meaning.kind == RangeKind::all_gather) {
      if (const std::uint64_t stream = stream_of_block(events, range); stream != 0) now.streams.insert(stream);
      if (std::find(now.units.begin(), now.units.end(), meaning.unit) == now.units.end())
        now.units.push_back(meaning.unit);
    }
    if (!backward && meaning.kind != RangeKind::root_pre_forward) continue;
    if (are_apart(before, now)) break;
    before = backward ? Forward() : std::move(now);
    now = {};
  }
  if (!are_apart(before, now)) return {};
  return fmt::format(
      "models with an FSDP2 root each run forward one behind the other, {}, and {}, and gather on streams "
      "of their own, where a recording is taken apart for one root",
      shown(before), shown(now));
}

}  // namespace foreshard::traces
