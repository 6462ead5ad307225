// From a model's configuration to the workload of its training step, as eager PyTorch 2.11 runs it: which ops in which
// order, what each allocates and frees (temporaries and tensors saved for backward included), what its kernels compute
// and what it costs the host. Kernels carry their shape and no time: the device prices them.
//
// Who: traces/workload_source for presets and model files; sweeps; tests hold the result against recordings request by
// request. Pure and deterministic.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/host_calls.hpp"
#include "core/models/model_config.hpp"
#include "core/models/target_gpu.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// The settings (core/settings/settings_table.hpp) that shape a generated program. Programs that differ in none of
/// these are the same; every other setting is FSDP2's part, which core/step puts back.
inline constexpr std::array<std::string_view, 24> kShapingSettings{"gpus",
                                                                   "nodes",
                                                                   "replicate",
                                                                   "tensor_parallel",
                                                                   "expert_parallel",
                                                                   "router_imbalance",
                                                                   "batch",
                                                                   "seq",
                                                                   "param_dtype",
                                                                   "reduce_dtype",
                                                                   "accumulate",
                                                                   "accumulate_with_sync",
                                                                   "set_to_none",
                                                                   "checkpoint",
                                                                   "checkpoint_share",
                                                                   "kernels",
                                                                   "float8",
                                                                   "float8_all_gather",
                                                                   "offload",
                                                                   "optimizer",
                                                                   "units_per_group",
                                                                   "all_gather",
                                                                   "fully_shard_embedding_and_head",
                                                                   "pytorch"};

/// Of these the ones that leave the steps' ops alone: they change setup, units and what section_costs() says.
inline constexpr std::array<std::string_view, 6> kLeaveSteps{
    "gpus", "nodes", "replicate", "optimizer", "all_gather", "fully_shard_embedding_and_head"};

/// The steps of a generated program as the model's own modules run them: embedding and head are the root's. What
/// programs share that differ in none of kShapingSettings but kLeaveSteps.
struct ModelSteps {
  Labels labels;
  std::vector<Program> programs;     ///< as Workload::steps
  std::vector<TensorId> from_setup;  ///< tensors of setup that their kernels read
};

/// Takes most of generate()'s time. Arguments and failures are generate()'s.
[[nodiscard]] Result<ModelSteps> generate_steps(const ModelConfig& model, const Settings& settings,
                                                const HostCosts& host, const TargetGpu& gpu, bool keep_kernels = false);

/// `settings` are those the workload is made for; the result's are `settings` with batch and seq filled in, its units
/// are the model's blocks and the root.
/// `keep_kernels`: setup and steps say what they compute (Program::kernels), for a device that runs them; the
/// ops are the same. Of a compiled model nothing is known.
/// `known`: generate_steps() of the same arguments, of settings that differ in kLeaveSteps alone; null: they are made.
/// Fails (usage) where the family cannot run at these settings: what, and what would work.
[[nodiscard]] Result<Workload> generate(const ModelConfig& model, const Settings& settings, const HostCosts& host,
                                        const TargetGpu& gpu, bool keep_kernels = false,
                                        const ModelSteps* known = nullptr);

}  // namespace foreshard
