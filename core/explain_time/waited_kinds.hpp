// How long the compute stream waits for collectives of each kind: the answer to "what do all exchanges cost together".
//
// Who: sim/predict, cli's plan. Pure; numbers are those of `explain --time` of the same run.
#pragma once

#include <vector>

#include "core/device/collective.hpp"
#include "core/explain_time/time_explanation.hpp"

namespace foreshard {

struct WaitedKind {
  CollectiveKind kind = CollectiveKind::all_gather;
  Nanoseconds time;
};

/// By kind, the longest first; empty: the compute stream waits for none.
[[nodiscard]] std::vector<WaitedKind> waited_kinds(const Run& run, const TimeExplanation& explanation);

}  // namespace foreshard
