// What a probe measured, as it is shown and as the fit takes it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/terminal/output.hpp"
#include "gpu/probe/probe.hpp"
#include "sim/calibrate/probe_fit.hpp"

namespace foreshard::cli {

/// The same numbers, field by field, of a probe of `ranks` ranks on one node. `date`: "2026-11-21".
[[nodiscard]] sim::ProbeMeasurements measurements_of(const gpu::ProbeResult& probed, std::uint32_t ranks,
                                                     const std::string& date);

/// What was measured, as it was.
[[nodiscard]] Json probe_json(const gpu::ProbeResult& probed);

}  // namespace foreshard::cli
