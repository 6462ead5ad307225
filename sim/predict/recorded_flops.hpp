// What a recorded step computes at least: the numerator of a recording's MFU. A recorded kernel has a time and no
// shape, so it is counted from the matrices of the model and the tokens of the step, and held against the matrix
// products and attentions that were recorded.
//
// Who: predict.cpp and the answer of a recording. Pure.
#pragma once

#include <string>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// Of one step and GPU, counted as model_flops() counts a model's own kernels: forward and twice that for backward, a
/// causal mask's half and what is recomputed left out.
struct RecordedFlops {
  double flops = 0;               ///< 0: not known
  DType dtype = DType::bfloat16;  ///< of the matrix products
  std::string rests_on;           ///< in words, where it is known
  std::string unknown;            ///< why not, where it is not
};

/// A weight matrix counts once a token (of tensor parallelism this rank's part, as the workload has it), the table of
/// an embedding (by its name) not at all, unless the head is tied to it. Not known without batch and sequence length,
/// of steps that differ, with weights of more than two dimensions (experts, convolutions), with frozen parameters, in
/// float32 (TF32 or not is not recorded), and where the recorded forward has other matrix products or attentions than
/// the parameters' names and shapes account for.
[[nodiscard]] RecordedFlops recorded_flops(const Workload& workload, const Settings& settings);

}  // namespace foreshard::sim
