#include "sim/forecast/seeds_outcome.hpp"

#include <algorithm>
#include <tuple>

namespace foreshard::sim {

SeedsOutcome outcome_of(std::span<const SeedForecast> seeds) {
  SeedsOutcome out;
  out.seeds = seeds.size();
  for (const SeedForecast& seed : seeds) {
    if (seed.out_of_memory) ++out.out_of_memory;
    out.before_first |= seed.out_of_memory && seed.out_of_memory->before_first;
    out.lives_until = std::min(out.lives_until, seed.lives_until());
    out.peak_reserved = std::max(out.peak_reserved, seed.peak_reserved());
    out.num_alloc_retries = std::max(out.num_alloc_retries, seed.num_alloc_retries());
    if (const auto first = seed.first_retry()) out.first_retry = std::min(out.first_retry.value_or(SIZE_MAX), *first);
    out.steps_giving_back = std::max(out.steps_giving_back, seed.steps_giving_back);
    out.driver_allocations = std::max(out.driver_allocations, seed.driver_allocations);
    out.driver_frees = std::max(out.driver_frees, seed.driver_frees);
    out.driver_time = std::max(out.driver_time, seed.driver_time);
    out.churn = std::max(out.churn, seed.churn());
  }
  return out;
}

bool helps(const SeedsOutcome& changed, const SeedsOutcome& before) {
  if (changed.out_of_memory != before.out_of_memory) return changed.out_of_memory < before.out_of_memory;
  if (changed.lives_until != before.lives_until) return changed.lives_until > before.lives_until;
  if (changed.out_of_memory > 0) return false;
  if (changed.steps_giving_back > before.steps_giving_back || changed.churn > before.churn) return false;
  if (before.num_alloc_retries > 0) return changed.num_alloc_retries < before.num_alloc_retries;
  if (changed.num_alloc_retries > 0) return false;
  const auto rank = [](const SeedsOutcome& one) {
    return std::tuple(one.steps_giving_back, one.churn, one.peak_reserved);
  };
  return rank(changed) < rank(before);
}

std::size_t worst_of(const std::vector<SeedForecast>& seeds) {
  const auto fares = [](const SeedForecast& seed) {
    return std::tuple(seed.lives_until(), -seed.num_alloc_retries(), seed.first_retry().value_or(SIZE_MAX),
                      UINT64_MAX - seed.peak_reserved());
  };
  const auto worst = std::min_element(
      seeds.begin(), seeds.end(), [&](const SeedForecast& a, const SeedForecast& b) { return fares(a) < fares(b); });
  return static_cast<std::size_t>(worst - seeds.begin());
}

}  // namespace foreshard::sim
