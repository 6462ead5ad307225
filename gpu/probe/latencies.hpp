// The probe's small numbers: latencies of the device, read off CUPTI's timestamps, and what calls cost this host.
// Used by probe.cpp alone; errors are DeviceFailures.
#pragma once

#include "gpu/cuda/groups.hpp"
#include "gpu/kernels/executor.hpp"
#include "gpu/probe/probe.hpp"

namespace foreshard::gpu {

/// Collective over the session's ranks (it has collectives in it). `groups` may use plain NCCL and, with `own`, our
/// own.
[[nodiscard]] ProbedLatencies probe_latencies(Executor& executor, Groups& groups, std::uint32_t ranks);
[[nodiscard]] ProbedHost probe_host(Executor& executor, Groups& groups, std::uint32_t ranks, bool own);

}  // namespace foreshard::gpu
