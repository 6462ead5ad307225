// How a model calls its embedding and head, which settings may make units of their own. Internal to sim/sweep and
// sim/tune. Pure but for the source.
#pragma once

#include "core/settings/python_lines.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// Whether FSDP2's root holds more than norms: embedding and head.
[[nodiscard]] bool root_has_weights(const Workload& workload);

/// The names of the modules that `settings` wrap, for python_lines(); the defaults where they are not known.
/// `workload`: of these settings.
[[nodiscard]] ModuleNames wrapped_modules(const Workload& workload, const Settings& settings);
[[nodiscard]] ModuleNames wrapped_modules(WorkloadSource& source, const Settings& settings);

}  // namespace foreshard::sim
