// The steps in which ranks are held against one another.
#pragma once

#include <cstdint>
#include <set>

#include "core/run/run.hpp"

namespace foreshard::straggler_detail {

/// The trace's complete steps, without the first of several: profilers start on each rank at their own time. Of a plan
/// those whose mean its step time is.
[[nodiscard]] std::set<std::int32_t> compared_steps(const Run& run);

/// `step` alone, where it is one of the trace's, or where a plan kept its ranks' ops and those of the step before, at
/// whose end it begins; else none.
[[nodiscard]] std::set<std::int32_t> compared_steps(const Run& run, std::int32_t step);

}  // namespace foreshard::straggler_detail
