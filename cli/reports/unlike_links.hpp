// The links of a planned job that are unlike a machine profile's: slower, partly taken, or down for a while. A plan
// keeps them with its run, so that what the run's collectives put on links is held against what these carry.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

/// The keys "slow_adapters", "slow_links" and "background_load" of a plan.
void add_unlike_links(const sim::Prediction& p, Json& json);

/// Those of a stored plan, on the profile of its machine. Of a store that was changed what no link can have is left
/// out.
void put_unlike_links(const Run& run, sim::MachineProfile& machine);

/// What rates of that profile mean for this run, and what is not in them: one sentence each.
[[nodiscard]] std::vector<std::string> unlike_links_notes(const Run& run, const sim::MachineProfile& machine);

}  // namespace foreshard::cli
