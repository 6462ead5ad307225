// Which parameters a recording trains: those whose gradients FSDP2 reduces. A frozen one (requires_grad=False) is
// gathered and never reduced.
//
// The rule (foreach_reduce, PyTorch 2.11; fsdp2 semantics 3): inside the first FSDP::post_backward_reduce range of a
// unit the first allocation is the reduce-scatter's input, whose size is the sum over the gradients, and each gradient
// is freed in the order of the unit's parameters, the last one at the range's end. Parameters of equal size that stand
// for one another are told apart by nothing; the last ones are taken, which no size of a plan depends on.
//
// Who: traces/capture. Pure.
#pragma once

#include <span>
#include <vector>

#include "core/fsdp/fsdp_rules.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

struct Trained {
  std::vector<bool> parameters;  ///< by ParameterId
  std::size_t frozen = 0;        ///< how many are not
  std::size_t alike = 0;         ///< units in which other parameters of equal sizes could be the frozen ones
};

/// `rules`: the recorded version's. All parameters of a unit count as trained where the recording's sizes fit no part
/// of them: then the match of FSDP2's rules (recogniser.hpp) says what does not fit.
[[nodiscard]] Trained find_trained(std::span<const CaptureEvent> events, std::span<const Range> ranges,
                                   std::span<const Unit> units, std::span<const UnitPlan> plans,
                                   const FsdpRules& rules);

}  // namespace foreshard::traces
