// Whether a run's times can be added and taken from each other: a damaged store may hold any number. Used before
// explanations, comparisons and exports. Pure.
#pragma once

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Fails (input) with the first record that ends before it starts or lies more than 2^53 ns (104 days) from 0.
[[nodiscard]] Result<void> check_times(const Run& run);

}  // namespace foreshard
