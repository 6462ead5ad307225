// Which units' all-gathers FSDP2 issues before their own hooks do.
//
// - Forward: the explicit targets of set_modules_to_forward_prefetch; without any, none.
// - Backward: the explicit targets of set_modules_to_backward_prefetch; without any, the group that forward resharded
//   just before this one (fsdp2 semantics 4.4).
//
// plan_prefetch() works the explicit targets out of the settings before the first step. Issuing them is FullyShard's
// (forward_prefetch, backward_prefetch and prefetch, also in prefetch.cpp), from its hooks pre_forward and
// pre_backward. PyTorch 2.11.
#pragma once

#include <vector>

#include "core/fsdp/unit_plan.hpp"

namespace foreshard {

/// Fills in the prefetch targets of `plans`: the next or previous N units for every unit but the root; explicit lists
/// replace them (fsdp2 semantics 4.5). A unit of experts is prefetched behind the one around it, and prefetches nothing
/// itself (torchtitan, distributed/fsdp.py: [next_block, next_block.moe.experts]). Errors (usage): a list names a unit
/// that is not there.
[[nodiscard]] Result<void> plan_prefetch(const Settings& settings, const std::vector<Unit>& units,
                                         std::vector<UnitPlan>& plans);

}  // namespace foreshard
