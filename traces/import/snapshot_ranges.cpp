#include "traces/import/snapshot_ranges.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {

std::int64_t snapshot_origin_us(const Snapshot& snapshot) {
  if (snapshot.events.empty()) return snapshot.annotations.empty() ? 0 : snapshot.annotations.front().time_us;
  if (snapshot.annotations.empty()) return snapshot.events.front().time_us;
  return std::min(snapshot.events.front().time_us, snapshot.annotations.front().time_us);
}

std::int64_t snapshot_end_us(const Snapshot& snapshot) {
  std::int64_t end = snapshot_origin_us(snapshot);
  if (!snapshot.events.empty()) end = std::max(end, snapshot.events.back().time_us);
  if (!snapshot.annotations.empty()) end = std::max(end, snapshot.annotations.back().time_us);
  return end;
}

std::vector<Range> snapshot_ranges(const Snapshot& snapshot) {
  const std::int64_t origin = snapshot_origin_us(snapshot);
  const Nanoseconds after = Nanoseconds::from_us(snapshot_end_us(snapshot) + 1 - origin);
  std::vector<Range> ranges;
  std::vector<std::size_t> open;  // indices of open ranges; nesting is shallow, so the search is short
  for (const SnapshotAnnotation& annotation : snapshot.annotations) {
    const Nanoseconds time = Nanoseconds::from_us(annotation.time_us - origin);
    if (annotation.start) {
      open.push_back(ranges.size());
      ranges.push_back({annotation.name, time, after});
      continue;
    }
    const auto found =
        std::find_if(open.rbegin(), open.rend(), [&](std::size_t i) { return ranges[i].name == annotation.name; });
    if (found == open.rend()) continue;
    ranges[*found].end = time;
    open.erase(std::next(found).base());
  }
  return ranges;
}

Result<void> check_ranges(std::span<const Range> ranges) {
  for (const Range& range : ranges)
    if (range.end < range.start)
      return fail(ErrorKind::input,
                  fmt::format("the annotation '{}' ends {:.3f} ms before it starts", range.name,
                              (range.start - range.end).ms()),
                  {}, "the recording's clock was set meanwhile, or the file is damaged; record or copy it again");
  return {};
}

std::vector<std::size_t> events_at(const Snapshot& snapshot, const std::vector<Nanoseconds>& times) {
  const std::int64_t origin = snapshot_origin_us(snapshot);
  std::vector<std::size_t> indices;
  std::size_t at = 0;
  for (const Nanoseconds time : times) {
    while (at < snapshot.events.size() && Nanoseconds::from_us(snapshot.events[at].time_us - origin) < time) ++at;
    indices.push_back(at);
  }
  return indices;
}

std::vector<Unit> units_named(std::span<const Range> ranges) {
  std::vector<Unit> units{Unit{}};  // the root, whose ranges have no name
  std::map<std::string, bool, std::less<>> seen{{"", true}};
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (!has_unit(meaning.kind) || seen.contains(meaning.unit)) continue;
    seen.emplace(std::string(meaning.unit), true);
    units.push_back({std::string(meaning.unit), {}});
  }
  return units;
}

}  // namespace foreshard::traces
