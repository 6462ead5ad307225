#include "viz/svg/memory_series.hpp"

#include <algorithm>

namespace foreshard::viz {
namespace {

using Action = AllocatorAction;

/// Blocks whose rounded size is not known are rounded as the allocator does (kMinBlockSize, CUDACachingAllocator.h).
constexpr Bytes kMinBlockSize = 512;

struct Sizes {
  std::int64_t size = 0;
  std::int64_t requested = 0;
  std::size_t category = static_cast<std::size_t>(MemoryCategory::other);
};

Sizes sizes_of(const Run& run, const AllocatorRecord& record) {
  if (record.block.value >= run.blocks.size())
    return {static_cast<std::int64_t>(round_up(record.size, kMinBlockSize)), static_cast<std::int64_t>(record.size)};
  const BlockRecord& block = run.blocks[record.block.value];
  const Bytes size = block.size > 0 ? block.size : round_up(block.requested, kMinBlockSize);
  const auto category = std::min(static_cast<std::size_t>(block.category), kCategories - 1);
  return {static_cast<std::int64_t>(size), static_cast<std::int64_t>(block.requested), category};
}

void apply(const Run& run, const AllocatorRecord& record, MemoryState& state) {
  const auto bytes = static_cast<std::int64_t>(record.size);
  switch (record.action) {
    case Action::alloc: {
      const Sizes block = sizes_of(run, record);
      state.category[block.category] += block.size;
      state.allocated += block.size;
      state.active += block.size;
      state.requested += block.requested;
      break;
    }
    case Action::free_requested: {
      const Sizes block = sizes_of(run, record);
      state.category[block.category] -= block.size;
      state.allocated -= block.size;
      break;
    }
    // free_block() lowers active and requested bytes, free() only allocated (CUDACachingAllocator.cpp, 2.11).
    case Action::free_completed: {
      const Sizes block = sizes_of(run, record);
      state.active -= block.size;
      state.requested -= block.requested;
      break;
    }
    case Action::segment_alloc:
    case Action::segment_map:
      state.reserved += bytes;
      break;
    case Action::segment_free:
    case Action::segment_unmap:
      state.reserved -= bytes;
      break;
    case Action::snapshot:
    case Action::oom:
    case Action::unknown:
      break;
  }
}

/// What was there before the first event: the final state less everything that happened; without a final state,
/// as little as keeps every statistic from falling below 0.
MemoryState before_first(const Run& run) {
  MemoryState net;
  MemoryState lowest;
  for (const AllocatorRecord& record : run.allocator) {
    apply(run, record, net);
    lowest.allocated = std::min(lowest.allocated, net.allocated);
    lowest.active = std::min(lowest.active, net.active);
    lowest.reserved = std::min(lowest.reserved, net.reserved);
    lowest.requested = std::min(lowest.requested, net.requested);
  }
  MemoryState last;
  for (const SnapshotSegment& segment : run.segments) {
    last.allocated += static_cast<std::int64_t>(segment.allocated_size);
    last.active += static_cast<std::int64_t>(segment.active_size);
    last.reserved += static_cast<std::int64_t>(segment.total_size);
    last.requested += static_cast<std::int64_t>(segment.requested_size);
  }
  MemoryState out;
  out.allocated = std::max(last.allocated - net.allocated, -lowest.allocated);
  out.active = std::max(last.active - net.active, -lowest.active);
  out.reserved = std::max(last.reserved - net.reserved, -lowest.reserved);
  out.requested = std::max(last.requested - net.requested, -lowest.requested);
  out.category[static_cast<std::size_t>(MemoryCategory::other)] = out.allocated;
  return out;
}

void raise(PeakMark& peak, std::int64_t bytes, Nanoseconds time) {
  if (bytes > peak.bytes) peak = {bytes, time};
}

/// Collects the states of a window into columns, peaks and marks.
class Collector {
 public:
  Collector(const Side& side, const Window& window, std::size_t columns, MemorySeries& series)
      : window_(window), series_(series), steps_end_(side.last - side.origin) {
    // A window behind the steps asked for has its own peaks.
    if (steps_end_ < window.from) steps_end_ = window.to;
    series.column_count = columns;
  }

  void begin(const MemoryState& state) {
    series_.begin = state;
    raise_peaks(state, window_.from);
  }
  void add(const MemoryState& state, Nanoseconds time) {
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
    if (time > steps_end_) return;
    raise(series_.allocated, state.allocated, time);
    raise(series_.active, state.active, time);
    raise(series_.reserved, state.reserved, time);
    raise(series_.requested, state.requested, time);
  }

  const Window& window_;
  MemorySeries& series_;
  Nanoseconds steps_end_;  // from the origin: the host's end of the steps asked for
};

}  // namespace

std::int64_t MemorySeries::most(MemoryCategory category) const {
  const auto at = static_cast<std::size_t>(category);
  std::int64_t bytes = begin.category[at];
  for (const MemoryColumn& column : columns)
    bytes = std::max({bytes, column.highest.category[at], column.end.category[at]});
  return bytes;
}

MemorySeries read_memory(const Run& run, const Side& side, const Window& window, std::size_t columns) {
  MemorySeries series;
  MemoryState state = before_first(run);
  Collector collector(side, window, std::max<std::size_t>(columns, 1), series);
  bool begun = false;
  for (const AllocatorRecord& record : run.allocator) {
    const Nanoseconds time = record.time - side.origin;
    series.last_event = time;
    if (time >= window.from && !begun) {
      collector.begin(state);
      begun = true;
    }
    apply(run, record, state);
    if (time < window.from || time > window.to) continue;
    collector.add(state, time);
    collector.mark(record, time);
  }
  if (!begun) collector.begin(state);
  return series;
}

}  // namespace foreshard::viz
