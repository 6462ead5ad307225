// What the user's own part of a step shows of settings: inputs, and activation checkpointing. Inner part of infer.cpp.
//
// Pure, deterministic, thread-safe.
#pragma once

#include "traces/infer/inference.hpp"

namespace foreshard::traces {

/// Inference::inputs; batch and seq where an attention kernel's grid in the trace tells them apart.
void infer_inputs(const InferInput& input, Inference& out);

/// checkpoint and checkpoint_share: blocks whose backward begins with their forward once more, kernel by kernel, or
/// without a trace request by request.
void infer_checkpoint(const InferInput& input, Inference& out);

}  // namespace foreshard::traces
