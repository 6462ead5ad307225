// Units that stay gathered after forward: the last ones, which backward needs first and frees first.
//
// Who: sim/tune. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"

namespace foreshard::sim {

/// How many of the last units, one behind the other, `settings` keep by name.
[[nodiscard]] std::uint32_t kept_units(const Settings& settings, const std::vector<Unit>& units);
/// How many there are: all but the root, and but the head where it is a unit of its own, which stays anyway.
[[nodiscard]] std::uint32_t most_kept_units(const Settings& settings, const std::vector<Unit>& units);
/// Keeps the last `count`, and none that was kept by name beside them.
void keep_units(std::uint32_t count, const std::vector<Unit>& units, Settings& settings);

}  // namespace foreshard::sim
