// The steps in which ranks are held against one another.
#pragma once

#include <cstdint>
#include <set>

#include "core/run/run.hpp"

namespace foreshard::straggler_detail {

/// The trace's complete steps, without the first of several: profilers start on each rank at their own time. Of a plan
/// the one that its times are of.
[[nodiscard]] std::set<std::int32_t> compared_steps(const Run& run);

}  // namespace foreshard::straggler_detail
