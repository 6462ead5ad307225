// Settings of FSDP's buffers that several readings of one recording differ in, settled by taking the step apart under
// each: gather blocks on the compute stream are those of an async unshard, or of gather_alloc compute; shards that are
// copied in one by one are offloaded.
//
// Who: traces/import. Pure, deterministic, thread-safe.
#pragma once

#include "traces/capture/capture.hpp"
#include "traces/infer/inference.hpp"

namespace foreshard::traces {

/// `input`'s settings, or the first of the other readings under which FSDP2's rules make the recorded requests, said in
/// `inference`; where none does, `input`'s. `input` without timing.
[[nodiscard]] Settings fit_buffers(const CaptureInput& input, Inference& inference);

}  // namespace foreshard::traces
