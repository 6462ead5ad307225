// What FSDP2's own sections and the optimizer launch, copy and cost the host, for a generated workload.
#pragma once

#include <vector>

#include "core/base/error.hpp"
#include "core/models/host_calls.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

/// Sections of every unit in both passes and of the optimizer, for `workload.settings`: items with bytes and host time
/// and no work, so that the device prices them. Fails where the settings do not fit the units.
[[nodiscard]] Result<std::vector<SectionCost>> section_costs(Workload& workload, const HostCosts& host);
/// That of the optimizer alone.
[[nodiscard]] Result<SectionCost> optimizer_cost(Workload& workload, const HostCosts& host);

}  // namespace foreshard::model
