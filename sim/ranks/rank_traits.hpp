// What tells one rank of a job from another.
#pragma once

#include <compare>
#include <cstdint>

namespace foreshard::sim {

inline constexpr std::uint32_t kNeverDies = UINT32_MAX;

/// What a rank draws for: the place of each under the rank's own key (RankTraits::draws).
enum class DrawsFor : std::uint64_t { kernels = 0, host_work = 1, gpu = 2, host = 3, lengths = 4 };

/// Factors are on the time it takes: 1.25 is a quarter slower.
struct RankTraits {
  std::uint32_t program = 0;  ///< which of the job's host programs it runs
  double kernels = 1;         ///< kernels and copies: a lower clock, a hot GPU
  double host = 1;            ///< host work
  std::uint64_t draws = 0;    ///< of a job with jitter: whose draws it has; with equal ones chance does the same
  std::uint32_t dead_from = kNeverDies;  ///< its host stops behind the last kernel of the step before this one
  std::int64_t begin = 0;                ///< ns: its host begins so much later than the first
  auto operator<=>(const RankTraits&) const = default;
};

}  // namespace foreshard::sim
