// Phases of a replayed CUDA graph beside those of another run.
//
// Who: cli's compare, before it asks for anything else. Pure.
#pragma once

#include <optional>

#include "core/run/run.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard {

/// `run` as a recording of replays would know it, where `other` is one: a recorded replay has one phase for forward and
/// backward (kGraphReplay), and its ops no unit. None: `other` is none, or both are. The steps are those that are
/// compared.
[[nodiscard]] std::optional<Run> as_replayed(const Run& run, const WantedStep& step, const Run& other,
                                             const WantedStep& other_step);

}  // namespace foreshard
