#include "core/straggler/runs_beside.hpp"

#include <algorithm>
#include <utility>

namespace foreshard::straggler_detail {

TimeSpans several_at_once(const std::vector<TimeSpans>& sets) {
  std::vector<std::pair<Nanoseconds, int>> changes;  // an end before a begin of the same time
  for (const TimeSpans& set : sets)
    for (const TimeSpan& span : united(set)) {
      changes.emplace_back(span.first, 1);
      changes.emplace_back(span.second, -1);
    }
  std::sort(changes.begin(), changes.end());
  TimeSpans out;
  int running = 0;
  for (const auto& [time, change] : changes) {
    if (change > 0 && ++running == 2) out.emplace_back(time, time);
    if (change < 0 && running-- == 2) out.back().second = time;
  }
  return united(std::move(out));
}

RunsBeside::RunsBeside(const Run& run) {
  std::map<std::uint32_t, std::map<StreamId, TimeSpans>> streams;
  for (const RankOpRecord& row : run.rank_ops)
    if (row.op.end > row.op.start) streams[row.rank][row.op.stream].emplace_back(row.op.start, row.op.end);
  for (auto& [rank, of] : streams) {
    std::vector<TimeSpans> sets;
    for (auto& [stream, spans] : of) sets.push_back(std::move(spans));
    busy_[rank] = several_at_once(sets);
  }
}

Nanoseconds RunsBeside::during(const std::vector<std::uint32_t>& ranks, Nanoseconds from, Nanoseconds to) const {
  TimeSpans all;
  for (const std::uint32_t rank : ranks)
    if (const auto found = busy_.find(rank); found != busy_.end()) {
      const TimeSpans here = within(found->second, from, to);
      all.insert(all.end(), here.begin(), here.end());
    }
  return length(united(std::move(all)));
}

Nanoseconds RunsBeside::during(std::uint32_t rank, Nanoseconds from, Nanoseconds to) const {
  const auto found = busy_.find(rank);
  return found == busy_.end() ? Nanoseconds{} : covered(found->second, from, to);
}

}  // namespace foreshard::straggler_detail
