// What became of several processes, one a seed, in the numbers that changes of them are compared by.
//
// Who: forecast_remedies.hpp; cli's report. Pure; deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace foreshard::sim {

/// Each number is the worst seed's of that number.
struct SeedsOutcome {
  std::size_t seeds = 0;
  std::size_t out_of_memory = 0;  ///< how many seeds run out of memory
  bool before_first = false;      ///< one of them before its first step
  std::size_t lives_until = SIZE_MAX;
  Bytes peak_reserved = 0;
  std::int64_t num_alloc_retries = 0;
  std::optional<std::size_t> first_retry;  ///< the earliest step of any
  std::size_t steps_giving_back = 0;
  std::size_t driver_allocations = 0;
  std::size_t driver_frees = 0;
  Nanoseconds driver_time;  ///< SeedForecast::driver_time
  std::size_t churn = 0;    ///< SeedForecast::churn
};
[[nodiscard]] SeedsOutcome outcome_of(std::span<const SeedForecast> seeds);

/// Whether a change helps. Fewer seeds that run out of memory do, and where as many do, the first of them later.
/// Out of memory in the same step, less of it reserved helps nobody; nor does it in runs that give segments back in
/// more steps, retry more often, or call the driver more often to. A run that lives by retries is helped by fewer
/// of them alone.
[[nodiscard]] bool helps(const SeedsOutcome& changed, const SeedsOutcome& before);

/// The one that fares worst: out of memory first, then the most retries, then the earliest of them, then the most
/// reserved; of equal ones the first.
[[nodiscard]] std::size_t worst_of(const std::vector<SeedForecast>& seeds);

}  // namespace foreshard::sim
