// What tells one rank of a job from another.
#pragma once

#include <compare>
#include <cstdint>

namespace foreshard::sim {

/// Factors are on the time it takes: 1.25 is a quarter slower.
struct RankTraits {
  std::uint32_t program = 0;  ///< which of the job's host programs it runs
  double kernels = 1;         ///< kernels and copies: a lower clock, a hot GPU
  double host = 1;            ///< host work
  auto operator<=>(const RankTraits&) const = default;
};

}  // namespace foreshard::sim
