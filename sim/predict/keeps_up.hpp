// A plan of a recording that another rank held up is of a step in which that rank keeps up, or is late by no more than
// it was told to be (Prediction::keeps_up): in words.
//
// Who: sim/predict's warning, cli's answer. Pure.
#pragma once

#include <string>

#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// "kernels × 1.2, host × 2": what the ranks of a group differ in themselves, their links apart; empty: nothing.
[[nodiscard]] std::string own_differences(const RankGroup& group);

/// Of the rank that was late in the recording, which this plan has as slower than the others: own_differences(). Empty:
/// it has not, or ranks were late by more work.
[[nodiscard]] std::string still_holds_up(const Prediction& prediction);

/// Which step the plan is of: "if rank 5 keeps up" and the like (core/straggler/straggler_text.hpp), "if nothing but
/// kernels × 1.2 holds rank 5 up". Requires: a rank was late.
[[nodiscard]] std::string keeps_up_words(const Prediction& prediction);

}  // namespace foreshard::sim
