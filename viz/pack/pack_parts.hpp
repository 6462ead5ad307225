// Everything that a pack keeps of its run, and the piece that tells what there is.
//
// Used by pack.cpp and meta.cpp alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/labels.hpp"
#include "viz/pack/block_levels.hpp"
#include "viz/pack/memory_levels.hpp"
#include "viz/pack/op_tables.hpp"
#include "viz/pack/pack.hpp"
#include "viz/pack/rank_pieces.hpp"
#include "viz/pack/track_levels.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

struct PackParts {
  PackParts(const Run& run_in, Window window_in, std::string stacking_in);

  const Run& run;
  Window window;
  std::string stacking;  ///< key of the one that the page opens with
  Nanoseconds memory_origin, lane_origin;
  Labels names;  ///< the run's labels first, so that their ids stay
  OpFacts facts;
  TrackLevels tracks;
  OpTables ops;
  RankPieces ranks;
  std::optional<MemoryLevels> memory;
  std::optional<BlockLevels> blocks;
};

/// The piece "meta": JSON, one object.
[[nodiscard]] std::string meta_json(const PackParts& parts);
/// The piece "names": a JSON array of strings.
[[nodiscard]] std::string names_json(const PackParts& parts);

}  // namespace foreshard::viz
