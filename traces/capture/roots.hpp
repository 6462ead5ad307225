// Whether a recording is of one FSDP2 root. Pure, deterministic.
#pragma once

#include <span>
#include <string>

#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// What shows that two models with a root each are used together, a teacher and its student, say: a clause that names
/// both by their units; empty where nothing does. A range has the name of a module below its root and not the root's,
/// so that those of two models may be the same. Each root gathers on a stream of its own (FSDPCommContext.lazy_init,
/// _fsdp_param_group.py, 2.11), and forwards of both come one behind the other with no backward between. An
/// unshard_async gathers on the compute stream, where nothing shows. `ranges` on the clock of `events`.
[[nodiscard]] std::string two_roots(std::span<const CaptureEvent> events, std::span<const Range> ranges);

/// What to do about it.
inline constexpr const char* kOneRootHint =
    "record steps in which one of the models is sharded by FSDP2: make the other's outputs ahead, or leave "
    "fully_shard out for it";

}  // namespace foreshard::traces
