// What each of several differences of a job costs: the step with it alone, and with all others but not it.
//
// The two need not be equal, nor add up to what all cost together: a rank that waits for a slow GPU anyway loses
// nothing by its slow adapter, and a slow adapter hides behind a slower one.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// A part of a job's differences.
struct NamedDifferences {
  std::string what;  ///< "rank 5's GPU", "adapter 1.3"
  Differences differences;
};

/// So many are told each by itself; of more, what is of one kind is told together ("the slow adapters").
inline constexpr std::size_t kMaxTold = 6;

/// Deaths are none of them.
[[nodiscard]] std::vector<NamedDifferences> each_of(const Differences& all);

/// Steps that are longer by it, not anchored.
struct DifferenceCost {
  std::string what;
  std::vector<std::uint32_t> ranks;  ///< whose own it is, ascending; empty: a link's, or other traffic's
  Nanoseconds alone;                 ///< with nothing else unlike, than with nothing at all
  Nanoseconds beside;                ///< with all others, than with these alone
};

/// Of each difference; one costs the same alone as beside the others, of which there are none. `steps`: the job with
/// all of them; `alike`: its step with none. On so many threads as `request` says, which changes no result. Errors as
/// of simulate_ranks().
[[nodiscard]] Result<std::vector<DifferenceCost>> difference_costs(const Workload& workload, const Settings& settings,
                                                                   const MachineProfile& machine,
                                                                   const SimulationRequest& request,
                                                                   const Differences& all, const Simulation& steps,
                                                                   Nanoseconds alike);

}  // namespace foreshard::sim
