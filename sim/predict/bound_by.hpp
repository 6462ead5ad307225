// What the step of a plan is bound by, and of a job whose ranks differ which of them make it longer.
//
// Who: Prediction::bound_by(); cli, which names them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// A difference of two steps that is less is not shown, in ms: of two decimals it leaves 0.00.
inline constexpr double kShownMs = 0.005;

/// Ranks whose own GPUs, hosts or programs make the step longer, and by how much: what another plan without that says.
struct SlowerRanks {
  std::vector<std::uint32_t> ranks;  ///< ascending
  std::string what;                  ///< "rank 5's GPU"
  double longer_ms = 0;              ///< the step, less the step without what these are unlike in
};

/// Of all differences (Prediction::rank_costs) the one that costs most beside the others, where that is more than
/// kLateShareOfStep of the step. Where none is, as where two GPUs are equally slow and each hides the other, those that
/// cost so much alone, and together what all differences cost. None: no rank costs so much, most of it is a link's or
/// other traffic's, or more than half of all ranks are such, which sets the pace.
[[nodiscard]] std::optional<SlowerRanks> slower_ranks(const Prediction& prediction);

/// Whether the host that issues the step makes it longer (kHostLengthens).
[[nodiscard]] bool host_binds(const Prediction& prediction);

}  // namespace foreshard::sim
