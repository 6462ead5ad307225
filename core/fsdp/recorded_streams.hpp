// How a workload names FSDP2's own streams, for what it keeps of them as recorded: segments that are older than the
// recording, and requests of a step that the recording began inside.
//
// Who: traces/capture writes such workloads, core/step runs them.
#pragma once

#include <cstdint>

#include "core/fsdp/fsdp_backend.hpp"

namespace foreshard {

/// Op::user_stream and, of a workload's initial segments, SnapshotSegment::stream: 0 is the compute stream, from here
/// on a StreamRole each, below the further streams of the user's program.
inline constexpr std::uint8_t kFirstFsdpStream = 248;

[[nodiscard]] constexpr std::uint8_t recorded_stream(StreamRole role) {
  return role == StreamRole::compute ? 0 : static_cast<std::uint8_t>(kFirstFsdpStream + static_cast<unsigned>(role));
}

}  // namespace foreshard
