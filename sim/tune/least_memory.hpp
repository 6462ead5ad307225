// Where nothing that was tried fits: which of it takes the least memory, so that the answer can say how much is short.
//
// Who: sim/tune. Deterministic for any number of threads.
#pragma once

#include <optional>
#include <vector>

#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// Of `tried` the one whose reserved memory peaks lowest where there is enough of it, with every op of its run; of
/// equal ones the fastest, then the first. A point that ran out of memory says no more than how far it came, so all are
/// simulated once more. None: none of them runs. `shared`: as the search's.
[[nodiscard]] std::optional<PlannedPoint> least_memory(WorkloadSource& source, const MachineProfile& machine,
                                                       PointRequest shared, const std::vector<Settings>& tried,
                                                       unsigned threads);

}  // namespace foreshard::sim
