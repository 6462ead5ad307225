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
/// CUPTI not started yet.
[[nodiscard]] ProbedHost probe_host(Executor& executor, Groups& groups, std::uint32_t ranks, bool own);
/// Microseconds that each of many small kernels in a queue takes longer while an all-gather of NCCL's is issued on
/// another stream and waits for their end; 0 with one rank. CUPTI not started yet: it would add its own time to each.
[[nodiscard]] double probe_gather_gap(Executor& executor, Groups& groups, std::uint32_t ranks);

}  // namespace foreshard::gpu
