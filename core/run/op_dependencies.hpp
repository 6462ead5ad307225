// Which device ops a device op waits for: the one before it on its stream, and those that its stream waited for by
// events. Used by core/explain_time, the Chakra writer and viz/graph. Pure; deterministic.
//
// An event stands for the last op that its stream had been given, and for what that stream itself was still waiting
// for (cudaEventRecord, cudaStreamWaitEvent). Only work that ended before an op began can have held it up: of a record
// and a launch at one moment of the host that tells which came first. A wait that the order of streams and earlier
// waits of the same stream imply is left out.
#pragma once

#include <cstddef>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

struct OpDependencies {
  std::size_t op = 0;               ///< in Run::device_ops
  std::vector<std::size_t> events;  ///< ops waited for by events, ascending, without the one before on the stream
  std::size_t before = kNoOp;       ///< the op before it on its stream, among those looked at

  static constexpr std::size_t kNoOp = static_cast<std::size_t>(-1);
};

/// Of `ops` (in Run::device_ops), with what `events` (in Run::events) tell; both in any order. In issue order; they
/// name only such ops.
[[nodiscard]] std::vector<OpDependencies> op_dependencies(const Run& run, std::vector<std::size_t> ops,
                                                          std::vector<std::size_t> events);

}  // namespace foreshard
