// Costs of eager PyTorch that are not a machine's: shares of an FSDP section, bytes of one element.
//
// Who: core/step and core/models, which put a price on what a recording or a preset does not show; accuracy,
// which counts a run that a constant was fitted on as seen. Each names its unit, its source and, in the names of a
// machine profile ("/measurements" of h200), what it was fitted on.
#pragma once

#include <array>
#include <string_view>

#include "core/base/quantity.hpp"

namespace foreshard {

struct PyTorchCost {
  std::string_view name;
  double value = 0;
  std::string_view unit;
  std::string_view source;
  std::string_view fitted_on;  ///< empty: nothing, as `source` says

  /// Of one in microseconds.
  [[nodiscard]] Nanoseconds time() const {
    constexpr double kPerMicrosecond = 1e3;
    return Nanoseconds::from_double(value * kPerMicrosecond);
  }
};

namespace pytorch_costs {

inline constexpr std::string_view kReferenceRuns = "reference-runs";

// Work that a recording without accumulation does not show (time model 3.5), by parameter.
inline constexpr PyTorchCost kGradientOpHost{
    "gradient_op_host", 12, "us", "one kernel and 12 us of host time a parameter (time model 3.5)", kReferenceRuns};
inline constexpr PyTorchCost kCastBytes{"cast_bytes", 6, "B/element", "reads bfloat16, writes float32", {}};
inline constexpr PyTorchCost kAddBytes{"add_bytes", 10, "B/element", "reads bfloat16 and float32, writes float32", {}};
inline constexpr PyTorchCost kCloneBytes{
    "clone_bytes", 4, "B/element", "reads and writes bfloat16, of one rank's part (int reshard)", {}};

// Shares of a section's fixed host time that pass before a kind of call.
inline constexpr PyTorchCost kMetadataOfCopyOut{"metadata_of_copy_out", 0.86, "ratio", "copy-out of llama-1b and mlp",
                                                kReferenceRuns};
inline constexpr PyTorchCost kMetadataOfReduce{"metadata_of_reduce", 0.55, "ratio", "reduce of llama-1b and mlp",
                                               kReferenceRuns};
inline constexpr PyTorchCost kChunkCatOfReduce{"chunk_cat_of_reduce", 0.06, "ratio", "reduce of llama-1b and mlp",
                                               kReferenceRuns};

// chunk_cat works element by element, below the memory's rate: it counts as this many times its bytes.
inline constexpr PyTorchCost kChunkCatCasting{
    "chunk_cat_casting", 2.0, "ratio", "bfloat16 to float32: 2.0 TB/s of 4.1 (llama-1b, all units)", kReferenceRuns};
inline constexpr PyTorchCost kChunkCat{"chunk_cat", 1.17, "ratio", "without a cast: 3.5 TB/s of 4.1 (mlp)",
                                       kReferenceRuns};

// Python between eager ops that the costs of calls (/host/calls) do not have. Hosts differ in it by a factor of two.
inline constexpr PyTorchCost kParallelLinearHost{"parallel_linear_host", 620, "us",
                                                 "torch.distributed.tensor around a linear layer's ops, each way "
                                                 "(__torch_dispatch__, from_local, redistribute): the "
                                                 "step of tp_def; 860 would be tp2_l3b's, 400 tp_nr's",
                                                 "tensor-parallel-run"};
inline constexpr PyTorchCost kDispatchedOpHost{
    "dispatched_op_host", 47, "us",
    "create_selective_checkpoint_contexts' dispatch modes and the checkpoint's saved-tensor hooks, each op of a "
    "region's forward and of its recomputation: the first timed step of sac_l1b, whose host runs ahead (188 ms, "
    "without "
    "checkpointing 94); 22 would be sac_def's",
    "selective-checkpoint-run"};

// What torch.compile does in a process' first step: how a compiled block allocates was read off this run as well
// (core/models, inductor_*.cpp).
inline constexpr PyTorchCost kInductorConfigurations{"inductor_configurations", 2, "count",
                                                     "configurations that a reduction is tuned over: compile_l1b",
                                                     "compiled-run"};
inline constexpr PyTorchCost kInductorRuns{"inductor_runs", 105, "count",
                                           "of a configuration, warm-up, estimate and repetitions: compile_l1b",
                                           "compiled-run"};

inline constexpr std::array kAll{kGradientOpHost,    kCastBytes,          kAddBytes,         kCloneBytes,
                                 kMetadataOfCopyOut, kMetadataOfReduce,   kChunkCatOfReduce, kChunkCatCasting,
                                 kChunkCat,          kParallelLinearHost, kDispatchedOpHost, kInductorConfigurations,
                                 kInductorRuns};

}  // namespace pytorch_costs
}  // namespace foreshard
