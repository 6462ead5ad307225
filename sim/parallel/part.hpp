// Work that is split over tasks which do not know of one another: each has every `of`-th of so many pieces.
//
// Who: sim/sweep for points, sim/ranks for trials, sim/forecast for seeds. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreshard::sim {

inline constexpr std::uint32_t kMaxParts = 65'536;

/// The pieces `number`, `number` + `of`, …
struct Part {
  std::uint32_t number = 0;
  std::uint32_t of = 1;
  [[nodiscard]] bool whole() const { return of == 1; }
  [[nodiscard]] bool has(std::size_t piece) const { return piece % of == number; }
  /// Of so many pieces.
  [[nodiscard]] std::size_t size(std::size_t pieces) const { return pieces / of + (pieces % of > number ? 1 : 0); }
  bool operator==(const Part&) const = default;
};

}  // namespace foreshard::sim
