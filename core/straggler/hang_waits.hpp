// For whom ranks wait to the end of a planned job that hangs, as its plan's answer says (Run::results, "hang").
//
// Who: the heat map of ranks. Pure; deterministic.
#pragma once

#include <cstdint>
#include <map>

#include "core/run/run.hpp"

namespace foreshard {

/// By rank the lowest that does not come to the first collective that it waits in for ever; ranks that wait for none,
/// as dead ones, are left out. Empty of every other run.
[[nodiscard]] std::map<std::uint32_t, std::uint32_t> hang_waits(const Run& run);

}  // namespace foreshard
