// Which ranks the step of a job whose ranks differ waits for: one of the things that a step is bound by.
//
// Who: Prediction::bound_by(); cli, which names them. Pure.
#pragma once

#include <vector>

#include "core/straggler/rank_members.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// A difference of two steps that is less is not shown, in ms: of two decimals it leaves 0.00.
inline constexpr double kShownMs = 0.005;

/// The ranks that the one whose times `prediction` has waits for, where they are late by their own GPU or host
/// (Stragglers::late) and the step is longer for it than if all ranks were alike; empty: none is.
[[nodiscard]] std::vector<RankRun> late_ranks(const Prediction& prediction);

}  // namespace foreshard::sim
