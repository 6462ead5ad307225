// The heat map of ranks as pieces of a pack: "rankmap" (JSON: rows, critical paths, words) and "rankcells" (a table).
//
// Used by pack.cpp and meta.cpp. Deterministic. A run with one row has neither: its lanes show the same.
#pragma once

#include <optional>
#include <string>

#include "core/run/run.hpp"
#include "core/straggler/rank_activity.hpp"
#include "viz/pack/tables.hpp"

namespace foreshard::viz {

class RankPieces {
 public:
  /// `origin`: of the lanes.
  RankPieces(const Run& run, Nanoseconds origin);

  [[nodiscard]] bool empty() const { return !activity_; }
  /// "rankmap": rows with their ranks and names, the critical path of each step that has one.
  [[nodiscard]] std::string map_json() const;
  /// "rankcells": each row's time in bins, neighbours of one state as one cell.
  [[nodiscard]] ColumnTable cells() const;

 private:
  const Run& run_;
  Nanoseconds origin_;
  std::optional<RankActivity> activity_;
  Nanoseconds first_, last_;
};

}  // namespace foreshard::viz
