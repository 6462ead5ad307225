// What a stored plan says of steps that its run has not: its trials, with jitter or drawn lengths, and a longer run.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/run/run.hpp"
#include "sim/predict/settled_memory.hpp"
#include "sim/predict/trial_times.hpp"

namespace foreshard::cli {

struct StoredTrials {
  std::uint32_t trials = 0;
  double median_ms = 0;
  double p95_ms = 0;
  double mean_ms = 0;
  std::string sentence;         ///< as the plan says it; empty: a plan of a foreshard that did not keep it
  bool lengths = false;         ///< each rank draws lengths; else the next ones are 0
  double low_ms = 0;            ///< the mean's interval
  double high_ms = 0;           ///< its end
  double tokens_per_s_gpu = 0;  ///< of the tokens drawn
};

/// None: the plan has no trials, or the run is no plan.
[[nodiscard]] std::optional<StoredTrials> stored_trials(const Run& run);

/// What its processes came to reserve, `fit` left out; none: its ranks draw no lengths.
[[nodiscard]] std::optional<sim::DrawnMemory> stored_drawn_memory(const Run& run);

/// What it reserves in a longer run, and its retries there (Prediction::settled); none: it does not say.
[[nodiscard]] std::optional<sim::SettledMemory> stored_settled_memory(const Run& run);

}  // namespace foreshard::cli
