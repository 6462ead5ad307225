// What is known of each op, in tiles by its number: for whom the pointer rests on it, and for search.
//
// Used by pack.cpp. Pure; deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/run/run.hpp"
#include "viz/pack/tables.hpp"
#include "viz/pack/track_levels.hpp"
#include "viz/scene/op_facts.hpp"

namespace foreshard::viz {

/// An event that a stream was told to wait for before an op.
struct OpWait {
  EventId event;
  StreamId stream;   ///< that recorded it
  std::uint32_t op;  ///< last op before the record on that stream; UINT32_MAX: none
};

/// For each device op what it waits for: the op before it on its stream, and the events that its stream was told to
/// wait for since. Empty waits where the run recorded no events (a profiler trace).
class OpWaits {
 public:
  explicit OpWaits(const Run& run);
  [[nodiscard]] std::uint32_t previous(std::size_t op) const { return previous_[op]; }
  [[nodiscard]] const std::vector<OpWait>& waits(std::size_t op) const { return waits_[op]; }

 private:
  std::vector<std::uint32_t> previous_;
  std::vector<std::vector<OpWait>> waits_;
};

class OpTables {
 public:
  /// `run`, `facts` and `tracks` must outlive it. Names that no label of the run has are added to `names`.
  OpTables(const Run& run, const OpFacts& facts, const TrackLevels& tracks, Nanoseconds origin, Labels& names);

  /// Of kDeviceOps.
  [[nodiscard]] ColumnTable device_tile(std::size_t tile) const;
  /// Of kHostOps.
  [[nodiscard]] ColumnTable host_tile(std::size_t tile) const;
  /// Of kRankOps.
  [[nodiscard]] ColumnTable rank_tile(std::size_t tile) const;
  /// Of kFindOps.
  [[nodiscard]] ColumnTable find_device() const;
  /// Of kFindHostOps.
  [[nodiscard]] ColumnTable find_host() const;

 private:
  void link_host_ops();
  /// Readable name of an op, and its symbol; ids of `names`.
  std::pair<std::int64_t, std::int64_t> named(const DeviceOpRecord& op, Labels& names);
  void add_waits(RowRange rows, ColumnTable& table) const;

  const Run& run_;
  const OpFacts& facts_;
  const TrackLevels& tracks_;
  Nanoseconds origin_;
  OpWaits waits_;
  std::vector<std::int64_t> name_, symbol_, unit_;     // by device op
  std::vector<std::int64_t> rank_name_, rank_symbol_;  // by rank op
  std::map<LabelId, LabelId> titles_;                  // of symbols
  std::vector<std::int64_t> host_of_, op_of_;          // by device op, by host op
};

}  // namespace foreshard::viz
