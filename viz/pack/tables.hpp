// The tables that the pieces of a pack hold: each one's columns, with their names, in one place.
//
// Who: the makers of pieces fill columns by name; meta.cpp tells the page the names, and the page finds columns by them
// (viz/page/src/data/tables.ts). docs/view.md lists the tables, and a test holds it to these. Constant data.
// To add a column: name it here and fill it where the piece is made. The page passes over columns it does not read.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/base/quantity.hpp"
#include "viz/pack/column_codec.hpp"
#include "viz/pack/tiles.hpp"

namespace foreshard::viz {

/// What a column's numbers are: a quantity, or an index of a list of `meta`, of `names` or of another table.
/// −1 where there is none.
enum class ColumnType : std::uint8_t {
  time,         ///< ns from the origin
  duration,     ///< ns
  bytes,        ///< also places on the address axis
  count,        ///< of ops, blocks or values; also launch dimensions
  number,       ///< an id that nothing lists: of an event, a communicator, a thread, a step, a correlation
  name,         ///< of `names`
  stream,       ///< an id of meta.streams
  unit,         ///< of meta.units
  parameter,    ///< of meta.parameters
  category,     ///< of meta.categories
  lane_class,   ///< of meta.classes
  component,    ///< of a stacking's components
  device_kind,  ///< of meta.words.device_kind; likewise the next three
  host_kind,
  collective,
  transport,
  device_op,  ///< row of all tiles of "ops"; likewise "hostops"
  host_op,
  block,        ///< a block's id
  block_class,  ///< of meta.blocks.classes
  track,        ///< of meta.tracks
};

/// Whether a piece has a column: always; once for each entry of a list (each class, each component), all lists of one
/// piece of one length; or only in some pieces, behind all others.
enum class ColumnUse : std::uint8_t { always, list, optional };

struct ColumnInfo {
  std::string_view name;
  ColumnType type;
  ColumnUse use = ColumnUse::always;
};

/// The name as the page and docs/view.md have it: "busy"; of a list "busy[]"; of an optional column "busy?".
[[nodiscard]] std::string marked_name(const ColumnInfo& column);

struct TableLayout {
  std::string_view name;
  std::span<const ColumnInfo> columns;  ///< in the order of the piece
};

namespace tables_detail {

using enum ColumnType;
using enum ColumnUse;

inline constexpr std::array kMemoryLines{
    ColumnInfo{"time", time},
    ColumnInfo{"allocated_most", bytes},
    ColumnInfo{"allocated_least", bytes},
    ColumnInfo{"allocated_last", bytes},
    ColumnInfo{"active_most", bytes},
    ColumnInfo{"active_least", bytes},
    ColumnInfo{"active_last", bytes},
    ColumnInfo{"reserved_most", bytes},
    ColumnInfo{"reserved_least", bytes},
    ColumnInfo{"reserved_last", bytes},
    ColumnInfo{"requested_most", bytes},
    ColumnInfo{"requested_least", bytes},
    ColumnInfo{"requested_last", bytes},
};

/// `highest`: when the sum of the components was highest in the bucket; `last`: when it ended.
inline constexpr std::array kMemoryStack{
    ColumnInfo{"time", time},
    ColumnInfo{"highest", bytes, list},
    ColumnInfo{"last", bytes, list},
};

/// `pending` is active − allocated, `rounding_active` active − requested. Six components whose bytes the change of
/// allocated is (of names that the run does not have, the first); bytes of each component before the first event. Of
/// the gap the parts that do not follow from other columns, and what is left of the three that do (0 but where
/// core/explain counts otherwise: a block that comes back with the next entry is never pending).
inline constexpr std::array kMemoryEvents{
    ColumnInfo{"time", time},
    ColumnInfo{"allocated", bytes},
    ColumnInfo{"pending", bytes},
    ColumnInfo{"reserved", bytes},
    ColumnInfo{"rounding_active", bytes},
    ColumnInfo{"category", component},
    ColumnInfo{"unit", component},
    ColumnInfo{"stream", component},
    ColumnInfo{"module", component},
    ColumnInfo{"operator", component},
    ColumnInfo{"frame", component},
    ColumnInfo{"category_before", bytes},
    ColumnInfo{"unit_before", bytes},
    ColumnInfo{"stream_before", bytes},
    ColumnInfo{"module_before", bytes},
    ColumnInfo{"operator_before", bytes},
    ColumnInfo{"frame_before", bytes},
    ColumnInfo{"rounding", bytes, optional},
    ColumnInfo{"hard_fragmentation", bytes, optional},
    ColumnInfo{"soft_fragmentation", bytes, optional},
    ColumnInfo{"private_pools", bytes, optional},
    ColumnInfo{"pending_left", bytes, optional},
    ColumnInfo{"stream_left", bytes, optional},
    ColumnInfo{"requested_left", bytes, optional},
};

/// Bars: on the last level each is one op, and `count` and `busy` are left out.
inline constexpr std::array kTrack{
    ColumnInfo{"start", time},      ColumnInfo{"length", duration},       ColumnInfo{"class", lane_class},
    ColumnInfo{"first_op", number}, ColumnInfo{"count", count, optional}, ColumnInfo{"busy", duration, optional},
};

/// Before each tile of the last level, and at the end.
inline constexpr std::array kTotals{
    ColumnInfo{"ops", count, list},
    ColumnInfo{"busy", duration, list},
};

inline constexpr std::array kBlocks{
    ColumnInfo{"block", block},
    ColumnInfo{"place", bytes},
    ColumnInfo{"size", bytes},
    ColumnInfo{"requested", bytes},
    ColumnInfo{"stream", stream},
    ColumnInfo{"pool", number},
    ColumnInfo{"category", category},
    ColumnInfo{"unit", unit},
    ColumnInfo{"parameter", parameter},
    ColumnInfo{"label", name},
    ColumnInfo{"owner", name},
    ColumnInfo{"operator", name},
    ColumnInfo{"frame", name},
    ColumnInfo{"by_module", component},
    ColumnInfo{"by_operator", component},
    ColumnInfo{"by_frame", component},
    ColumnInfo{"step", number},
    ColumnInfo{"made", time},
    ColumnInfo{"freed", time},
    ColumnInfo{"back", time},
    ColumnInfo{"waits_for_stream", stream},
    ColumnInfo{"waits_behind", name},
    ColumnInfo{"waits_behind_end", time},
};

inline constexpr std::array kMergedBlocks{
    ColumnInfo{"from", time},    ColumnInfo{"length", duration}, ColumnInfo{"place", bytes},
    ColumnInfo{"extent", bytes}, ColumnInfo{"count", count},     ColumnInfo{"category", category},
    ColumnInfo{"bytes", bytes},
};

inline constexpr std::array kSegments{
    ColumnInfo{"place", bytes}, ColumnInfo{"size", bytes}, ColumnInfo{"stream", stream},
    ColumnInfo{"from", time},   ColumnInfo{"to", time},
};

/// `name` is readable; `symbol` is the kernel's full name where that is another. `waits_end`: how many waits there are
/// up to the op's own; the last three columns have a row for each wait.
inline constexpr std::array kDeviceOps{
    ColumnInfo{"kind", device_kind},
    ColumnInfo{"stream", stream},
    ColumnInfo{"name", name},
    ColumnInfo{"symbol", name},
    ColumnInfo{"class", lane_class},
    ColumnInfo{"issue", time},
    ColumnInfo{"start", time},
    ColumnInfo{"end", time},
    ColumnInfo{"bytes", bytes},
    ColumnInfo{"unit", name},
    ColumnInfo{"collective", collective},
    ColumnInfo{"transport", transport},
    ColumnInfo{"communicator", number},
    ColumnInfo{"correlation", number},
    ColumnInfo{"host_op", host_op},
    ColumnInfo{"previous_op", device_op},
    ColumnInfo{"track", track},
    ColumnInfo{"grid_x", count},
    ColumnInfo{"grid_y", count},
    ColumnInfo{"grid_z", count},
    ColumnInfo{"block_x", count},
    ColumnInfo{"block_y", count},
    ColumnInfo{"block_z", count},
    ColumnInfo{"waits_end", count},
    ColumnInfo{"wait_event", number},
    ColumnInfo{"wait_stream", stream},
    ColumnInfo{"wait_op", device_op},
};

/// Of an import of several ranks: the ops of those that are not the first, by rank_op's number. `sequence` is a
/// collective's place among its communicator's of the step.
inline constexpr std::array kRankOps{
    ColumnInfo{"rank", number},      ColumnInfo{"name", name},   ColumnInfo{"symbol", name},
    ColumnInfo{"class", lane_class}, ColumnInfo{"start", time},  ColumnInfo{"end", time},
    ColumnInfo{"bytes", bytes},      ColumnInfo{"step", number}, ColumnInfo{"phase", name},
    ColumnInfo{"sequence", number},
};

/// The heat map of ranks: by row of "rankmap", then by time. `state` is of its states, `for_rank` whom `waiting` is
/// for.
inline constexpr std::array kRankCells{
    ColumnInfo{"row", number},   ColumnInfo{"start", time},      ColumnInfo{"length", duration},
    ColumnInfo{"state", number}, ColumnInfo{"for_rank", number},
};

inline constexpr std::array kHostOps{
    ColumnInfo{"kind", host_kind}, ColumnInfo{"thread", number}, ColumnInfo{"name", name},
    ColumnInfo{"start", time},     ColumnInfo{"end", time},      ColumnInfo{"correlation", number},
    ColumnInfo{"op", device_op},   ColumnInfo{"track", track},
};

inline constexpr std::array kFindOps{
    ColumnInfo{"name", name},  ColumnInfo{"symbol", name}, ColumnInfo{"unit", name},
    ColumnInfo{"start", time}, ColumnInfo{"track", track},
};

inline constexpr std::array kFindHostOps{
    ColumnInfo{"name", name},
    ColumnInfo{"start", time},
    ColumnInfo{"track", track},
};

inline constexpr std::array kFindBlocks{
    ColumnInfo{"block", block},   ColumnInfo{"label", name}, ColumnInfo{"owner", name},
    ColumnInfo{"operator", name}, ColumnInfo{"frame", name}, ColumnInfo{"category", category},
    ColumnInfo{"unit", unit},     ColumnInfo{"made", time},  ColumnInfo{"class", block_class},
    ColumnInfo{"size", bytes},
};

}  // namespace tables_detail

inline constexpr TableLayout kMemoryLines{"memory/lines", tables_detail::kMemoryLines};
inline constexpr TableLayout kMemoryStack{"memory/stack", tables_detail::kMemoryStack};
inline constexpr TableLayout kMemoryEvents{"memory/events", tables_detail::kMemoryEvents};
inline constexpr TableLayout kTrack{"track", tables_detail::kTrack};
inline constexpr TableLayout kTotals{"totals", tables_detail::kTotals};
inline constexpr TableLayout kBlocks{"blocks", tables_detail::kBlocks};
inline constexpr TableLayout kMergedBlocks{"merged", tables_detail::kMergedBlocks};
inline constexpr TableLayout kSegments{"segments", tables_detail::kSegments};
inline constexpr TableLayout kDeviceOps{"ops", tables_detail::kDeviceOps};
inline constexpr TableLayout kRankOps{"rankops", tables_detail::kRankOps};
inline constexpr TableLayout kRankCells{"rankcells", tables_detail::kRankCells};
inline constexpr TableLayout kHostOps{"hostops", tables_detail::kHostOps};
inline constexpr TableLayout kFindOps{"find/ops", tables_detail::kFindOps};
inline constexpr TableLayout kFindHostOps{"find/hostops", tables_detail::kFindHostOps};
inline constexpr TableLayout kFindBlocks{"find/blocks", tables_detail::kFindBlocks};

/// Every table. A piece is of the table whose name its own begins with; the stackings of memory are
/// "memory/stack".
inline constexpr std::array kTables{kMemoryLines, kMemoryStack,  kMemoryEvents, kTrack,       kTotals,
                                    kBlocks,      kMergedBlocks, kSegments,     kDeviceOps,   kRankOps,
                                    kRankCells,   kHostOps,      kFindOps,      kFindHostOps, kFindBlocks};

/// A column's number for a value: enumerations by their values, ids −1 where there is none.
template <class Tag>
[[nodiscard]] constexpr std::int64_t column_value(Id<Tag> id) {
  return id.valid() ? static_cast<std::int64_t>(id.value) : -1;
}
[[nodiscard]] constexpr std::int64_t column_value(Nanoseconds time) {
  return time.count;
}
template <class Value>
requires std::integral<Value> || std::is_enum_v<Value>
[[nodiscard]] constexpr std::int64_t column_value(Value value) {
  return static_cast<std::int64_t>(value);
}

/// What a table's pieces differ in.
struct TableShape {
  std::size_t list_length = 0;  ///< columns of each list
  bool optional = false;        ///< whether the optional columns are there
};

/// The columns of one piece, found by their names. A name that the table does not have is a bug: it ends the program.
class ColumnTable {
 public:
  explicit ColumnTable(const TableLayout& layout, TableShape shape = {});

  [[nodiscard]] Column& operator[](std::string_view name) { return columns_[find(name)]; }
  [[nodiscard]] const Column& operator[](std::string_view name) const { return columns_[find(name)]; }
  [[nodiscard]] std::span<Column> list(std::string_view name) { return {&columns_[find(name)], shape_.list_length}; }
  [[nodiscard]] std::span<const Column> list(std::string_view name) const {
    return {&columns_[find(name)], shape_.list_length};
  }

  /// Appends value(row) for each row.
  template <class Value>
  void fill(std::string_view name, RowRange rows, Value value) {
    Column& column = columns_[find(name)];
    column.reserve(column.size() + (rows.end - rows.first));
    for (std::size_t row = rows.first; row < rows.end; ++row) column.push_back(column_value(value(row)));
  }

  /// In the order of the piece.
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }

 private:
  /// The column of that name; of a list, the first.
  [[nodiscard]] std::size_t find(std::string_view name) const;

  TableLayout layout_;
  TableShape shape_;
  std::vector<Column> columns_;
};

}  // namespace foreshard::viz
