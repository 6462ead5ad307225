// Reads back what a call puts on the device: the call is captured into a CUDA graph that never runs, and its nodes are
// counted. Needs no timing, no profiler and no debug output.
//
// Who: communicator.cpp, once for each kind, transport and group. Thread safety: one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "core/base/error.hpp"
#include "gpu/collectives/path.hpp"

namespace foreshard::gpu {

/// `call` puts one collective on the stream it gets. What fails is said in CallTrace::failed.
[[nodiscard]] CallTrace trace_call(const std::function<Result<void>(cudaStream_t)>& call);

}  // namespace foreshard::gpu
