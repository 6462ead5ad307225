// How the rows of a table are cut into pieces.
//
// Used by viz/pack. Pure; deterministic.
#pragma once

#include <algorithm>
#include <cstddef>

namespace foreshard::viz {

/// Rows of a tile: small enough to be decoded within a frame, large enough to be packed well.
inline constexpr std::size_t kTileRows = 4096;

/// Rows [first, end).
struct RowRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// The tiles that so many rows fill.
[[nodiscard]] constexpr std::size_t tile_count(std::size_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}

/// The rows of one tile, of so many in all.
[[nodiscard]] constexpr RowRange tile_rows(std::size_t tile, std::size_t rows) {
  return {std::min(tile * kTileRows, rows), std::min((tile + 1) * kTileRows, rows)};
}

}  // namespace foreshard::viz
