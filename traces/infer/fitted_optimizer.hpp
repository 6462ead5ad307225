// The optimizer that a recording's requests between the optimizer's hooks are those of.
//
// Who: traces/import. Pure, deterministic, thread-safe.
#pragma once

#include <span>

#include "traces/capture/capture.hpp"
#include "traces/infer/inference.hpp"

namespace foreshard::traces {

/// Tries the optimizers that the ranges' class names allow (torch/optim/optimizer.py, profile_hook_step: Adam and AdamW
/// make the same requests), the default first, and keeps the one whose requests all steps have
/// (core/optimizer/optimizer_state.hpp). None fits: the default stays and the item says so. `input` without timing.
void fit_optimizer(const CaptureInput& input, std::span<const Range> ranges, Inference& inference);

}  // namespace foreshard::traces
