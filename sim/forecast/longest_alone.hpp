// Where a run of varying lengths runs out of memory: whether the length that failed fits a process of its own, and the
// longest one that does. It tells a length that is too long from memory that earlier lengths left in pieces.
//
// Who: cli's forecast. Deterministic for any number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/forecast/forecast.hpp"

namespace foreshard::sim {

/// The first one, and two that follow one of their length.
inline constexpr std::size_t kLeastStepsAlone = 3;

struct LongestAlone {
  std::uint64_t seed = 0;                ///< whose run it was
  std::uint32_t length = 0;              ///< of the step that ran out of memory
  std::size_t steps = 0;                 ///< of one length that each process ran, or would have
  bool fits = false;                     ///< they all end where all are of `length`
  std::int64_t num_alloc_retries = 0;    ///< of these
  std::optional<std::uint32_t> longest;  ///< of the lengths of that run that fit so; none: no length does
};

/// `failed`: of a run of `request`, ended in a step of it. As many steps of one length are run as that ran,
/// kLeastStepsAlone at least. The longest is searched for by halves: a longer length is taken to need no less. Fails
/// where the programs do.
[[nodiscard]] Result<LongestAlone> find_longest_alone(ProgramSource& programs, const ForecastRequest& request,
                                                      const SeedForecast& failed);

}  // namespace foreshard::sim
