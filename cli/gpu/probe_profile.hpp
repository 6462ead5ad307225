// From what probe measured to a machine profile: calibrate's fit, with latencies and host costs beside it.
#pragma once

#include <string>

#include "cli/terminal/output.hpp"
#include "gpu/probe/probe.hpp"
#include "sim/calibrate/fit_machine.hpp"

namespace foreshard::cli {

/// Extends `base`, a built-in profile. /host/calls of the result are those of foreshard's own host program, so that
/// plans with it predict `run`, not PyTorch; how they follow from the measured calls stands in docs/gpu.md. `when`:
/// "2026-11-21".
[[nodiscard]] Result<sim::MachineFit> profile_of(const gpu::ProbeResult& probed, std::uint32_t ranks,
                                                 const std::string& name, const std::string& base,
                                                 const std::string& when);

/// What was measured, as it was.
[[nodiscard]] Json probe_json(const gpu::ProbeResult& probed);

}  // namespace foreshard::cli
