// What the allocator held over time, by category, in as many columns as a picture has pixels.
//
// Used by memory_chart.hpp. Pure; deterministic; one pass over the allocator's events, memory as the columns.
//
// Within one column the state with the most allocated bytes stands for all, so that no peak is lost, and the
// categories of that state add up to its allocated bytes. Lines show each statistic's highest value in the column.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"
#include "viz/scene/memory_state.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

struct MemoryColumn {
  std::size_t at = 0;   ///< from 0; columns without an event are left out
  MemoryState highest;  ///< categories and allocated: of the moment with the most allocated; lines: their maxima
  MemoryState end;      ///< when the column ends
};

struct PeakMark {
  std::int64_t bytes = 0;
  Nanoseconds time;  ///< first time it was reached, from the origin
};

struct MemoryMark {
  enum class Kind : std::uint8_t { released = 0, out_of_memory = 1 };
  Kind kind = Kind::released;
  Nanoseconds time;         ///< from the origin
  std::uint64_t count = 0;  ///< segments given back
  Bytes bytes = 0;          ///< given back in sum, or asked for in vain
};

/// One part of the stack: a category, or a group of blocks.
struct StackPart {
  std::size_t at = 0;  ///< in MemoryState::category
  std::string title;
  std::string_view fill;
};

struct MemorySeries {
  std::vector<StackPart> parts;  ///< all there may be, from the axis up
  MemoryState begin;             ///< at the window's begin
  std::vector<MemoryColumn> columns;
  std::size_t column_count = 0;
  Nanoseconds last_event;                           ///< from the origin; of the whole recording
  PeakMark allocated, active, reserved, requested;  ///< of the steps asked for, as far as the window shows them
  std::int64_t top = 0;                             ///< the highest value of any statistic in the window
  std::vector<MemoryMark> marks;

  /// Whether freed blocks wait for events at some shown moment.
  [[nodiscard]] bool has_pending() const {
    if (begin.active != begin.allocated) return true;
    for (const MemoryColumn& column : columns)
      if (column.end.active != column.end.allocated || column.highest.active > column.highest.allocated) return true;
    return false;
  }
  /// The most that a category, or a group, holds at any shown moment.
  [[nodiscard]] std::int64_t most(std::size_t at) const;
};

/// `columns` columns from window.from to window.to, on the clock of `side`.
/// `groups`: as apply() takes them.
[[nodiscard]] MemorySeries read_memory(const Run& run, const Side& side, const Window& window, std::size_t columns,
                                       const BlockGroups* groups = nullptr);

}  // namespace foreshard::viz
