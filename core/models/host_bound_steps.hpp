// Training steps that are all host: many small kernels, or many sections and collectives, fewer operations than a
// launch queue holds. What the host takes to issue them, from an idle GPU, is what its calls cost within a step.
//
// Who: gpu/probe times them; sim/calibrate/probe_fit.cpp makes them again to count what they issue.
#pragma once

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"

namespace foreshard {

enum class HostBoundStep : std::uint8_t {
  sections = 0,  ///< an all-gather, its copies and a reduction for every few kernels
  kernels = 1,   ///< some ninety kernels of a Llama block for each
};

[[nodiscard]] inline Result<Workload> host_bound_step(HostBoundStep step, const HostCosts& host, const TargetGpu& gpu,
                                                      std::uint32_t ranks) {
  Settings settings;
  settings.gpus = ranks;
  settings.optimizer = Optimizer::adam_fused;
  PresetOverrides overrides;
  if (step == HostBoundStep::sections) {
    overrides.dim = 64;
    overrides.layers = 12;
  } else {
    overrides.layers = 4;
    settings.batch = 1;
    settings.seq = 128;
    settings.param_dtype = DType::bfloat16;
  }
  const auto model = preset(step == HostBoundStep::sections ? "mlp" : "llama-tiny", overrides);
  FORESHARD_TRY(model);
  auto workload = generate(*model, settings, host, gpu, true);
  if (workload) workload->lowering = Lowering::foreshard;
  return workload;
}

}  // namespace foreshard
