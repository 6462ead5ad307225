#include "viz/scene/memory_series.hpp"

#include <algorithm>

namespace foreshard::viz {
namespace {

using Action = AllocatorAction;

void raise(PeakMark& peak, std::int64_t bytes, Nanoseconds time) {
  if (bytes > peak.bytes) peak = {bytes, time};
}

/// Collects the states of a window into columns, peaks and marks.
class Collector {
 public:
  Collector(const Side& side, const Window& window, std::size_t columns, MemorySeries& series)
      : window_(window), series_(series), steps_begin_(side.place(side.first)), steps_end_(side.place(side.last)) {
    // A window behind the steps asked for has its own peaks.
    if (steps_end_ < window.from) {
      steps_end_ = window.to;
      steps_begin_ = window.from;
    }
    series.column_count = columns;
  }

  void begin(const MemoryState& state) {
    series_.begin = state;
    raise_peaks(state, window_.from);
    now_ = state;
  }
  void add(const MemoryState& state, Nanoseconds time) {
    if (!in_steps_ && time >= steps_begin_) raise_peaks(now_, std::max(steps_begin_, window_.from));
    in_steps_ |= time >= steps_begin_;
    now_ = state;
    raise_peaks(state, time);
    const auto length = static_cast<double>((window_.to - window_.from).count);
    const double share = static_cast<double>((time - window_.from).count) / length;
    const auto at =
        std::min(static_cast<std::size_t>(share * static_cast<double>(series_.column_count)), series_.column_count - 1);
    if (series_.columns.empty() || series_.columns.back().at != at) {
      // The state that the column begins with counts too, where it is the higher one.
      const MemoryState& before = series_.columns.empty() ? series_.begin : series_.columns.back().end;
      series_.columns.push_back({at, before, before});
    }
    MemoryColumn& column = series_.columns.back();
    if (state.allocated >= column.highest.allocated) {
      column.highest.category = state.category;
      column.highest.allocated = state.allocated;
    }
    column.highest.active = std::max(column.highest.active, state.active);
    column.highest.reserved = std::max(column.highest.reserved, state.reserved);
    column.highest.requested = std::max(column.highest.requested, state.requested);
    column.end = state;
  }
  void mark(const AllocatorRecord& record, Nanoseconds time) {
    const bool released = record.action == Action::segment_free || record.action == Action::segment_unmap;
    if (!released && record.action != Action::oom) return;
    const auto kind = released ? MemoryMark::Kind::released : MemoryMark::Kind::out_of_memory;
    // Segments that go within 1/200 of the picture are one mark.
    const Nanoseconds near{(window_.to - window_.from).count / 200};
    if (!series_.marks.empty() && series_.marks.back().kind == kind && time - series_.marks.back().time <= near) {
      ++series_.marks.back().count;
      series_.marks.back().bytes += released ? record.size : 0;
      return;
    }
    series_.marks.push_back({kind, time, 1, record.size});
  }

 private:
  void raise_peaks(const MemoryState& state, Nanoseconds time) {
    series_.top = std::max({series_.top, state.allocated, state.active, state.reserved, state.requested});
    if (time < steps_begin_ || time > steps_end_) return;
    raise(series_.allocated, state.allocated, time);
    raise(series_.active, state.active, time);
    raise(series_.reserved, state.reserved, time);
    raise(series_.requested, state.requested, time);
  }

  const Window& window_;
  MemorySeries& series_;
  Nanoseconds steps_begin_, steps_end_;  // in the picture: of the steps asked for
  MemoryState now_;
  bool in_steps_ = false;
};

/// Groups: the largest first, those without a name on top.
std::vector<StackPart> stack_parts(const BlockGroups* groups) {
  std::vector<StackPart> parts;
  if (groups == nullptr) {
    for (const MemoryCategory category : stack_order())
      parts.push_back({static_cast<std::size_t>(category), std::string(style(category).title), style(category).fill});
    return parts;
  }
  for (std::size_t i = 1; i < groups->titles.size(); ++i)
    parts.push_back({i, groups->titles[i], i > kMaxGroups ? kOthersColour : group_colour(i - 1)});
  parts.push_back({0, groups->titles.front(), kRestColour});
  return parts;
}

}  // namespace

std::int64_t MemorySeries::most(std::size_t at) const {
  std::int64_t bytes = begin.category[at];
  for (const MemoryColumn& column : columns)
    bytes = std::max({bytes, column.highest.category[at], column.end.category[at]});
  return bytes;
}

MemorySeries read_memory(const Run& run, const Side& side, const Window& window, std::size_t columns,
                         const BlockGroups* groups) {
  MemorySeries series;
  series.parts = stack_parts(groups);
  MemoryState state = before_first(run, groups);
  Collector collector(side, window, std::max<std::size_t>(columns, 1), series);
  bool begun = false;
  for (const AllocatorRecord& record : run.allocator) {
    const Nanoseconds time = side.place(record.time);
    series.last_event = time;
    if (time >= window.from && !begun) {
      collector.begin(state);
      begun = true;
    }
    apply(run, record, state, groups);
    if (time < window.from || time > window.to) continue;
    collector.add(state, time);
    collector.mark(record, time);
  }
  if (!begun) collector.begin(state);
  return series;
}

}  // namespace foreshard::viz
