// A training step that is all host: many small kernels, sections and collectives, which the GPU runs faster than they
// are issued. Its time on the host, less that of its calls, is what foreshard's own bookkeeping costs.
//
// Who: the probe runs it; cli/probe_profile.cpp makes it again to count what it issues.
#pragma once

#include "core/workload/model/generate.hpp"
#include "core/workload/model/presets.hpp"

namespace foreshard::gpu {

/// Fewer kernels and waits a step than a launch queue holds.
[[nodiscard]] inline Result<Workload> host_program(const HostCosts& host, const TargetGpu& gpu, std::uint32_t ranks) {
  PresetOverrides overrides;
  overrides.dim = 64;
  overrides.layers = 12;
  const auto model = preset("mlp", overrides);
  if (!model) return tl::unexpected(model.error());
  Settings settings;
  settings.gpus = ranks;
  settings.optimizer = Optimizer::adam_fused;
  return generate(*model, settings, host, gpu, true);
}

}  // namespace foreshard::gpu
