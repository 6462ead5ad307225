// Whether a run's times can be added and taken from each other: a damaged store may hold any number. Used when a store
// is opened or written, and before comparisons and exports of runs that come from elsewhere. Pure.
#pragma once

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Fails (input) with the first record, by its table and row in a store, that ends before it starts, lies more than
/// 2^53 ns (104 days) from 0, or is an allocator event earlier than the one before it. The error's place is the run's
/// name; who knows a better one, sets it.
[[nodiscard]] Result<void> check_times(const Run& run);

}  // namespace foreshard
