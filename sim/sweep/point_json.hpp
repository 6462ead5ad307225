// What was found of a point as JSON, and back, for tasks that split points among them: all but its settings and values,
// which follow from its place. Numbers come back to the last bit.
//
// Who: sim/sweep/sweep_part.hpp and sim/tune/tune_part.hpp. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/parallel/part_file.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

[[nodiscard]] nlohmann::ordered_json json_of(const SweepPoint& point);
/// What is missing or of another type is `members`' error.
[[nodiscard]] SweepPoint point_of(PieceMembers& members);

}  // namespace foreshard::sim
