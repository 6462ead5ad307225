// A rank whose data do not come to an FSDP unit: a batch without an image for the vision tower, an expert that the
// router chose on the other ranks alone. FSDP2's hooks of a module that does not run do not run either, so that the
// rank issues neither the unit's all-gathers nor its reduce-scatter.
//
// Pure and deterministic. Who: sim/predict/rank_programs.hpp.
#pragma once

#include <cstdint>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// Of `steps` steps those from `from` on, counted from 0, run without `unit` and the units inside it: without their
/// hooks, their ops between these, and the blocks that they allocate there and that go within the step. What else frees
/// its blocks meanwhile still does. All of `steps` are written out, of which a longer run repeats the last. Fails
/// (usage) of the root, of a unit that a step from `from` on does not run, and of one that another unit runs in part
/// inside.
[[nodiscard]] Result<void> skip_unit(Workload& workload, UnitId unit, std::uint32_t from, std::int32_t steps);

}  // namespace foreshard
