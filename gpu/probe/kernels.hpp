// Times of foreshard's own kernels, each alone: every kernel of short training steps of models of several sizes.
// Used by probe.cpp alone; errors are DeviceFailures.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/models/host_bound_steps.hpp"
#include "gpu/cuda/groups.hpp"
#include "gpu/kernels/executor.hpp"
#include "gpu/probe/probe.hpp"

namespace foreshard::gpu {

struct ProbedKernels {
  std::vector<ProbedKernel> kernels;
  double streamed_bandwidth = 0;   ///< ProbeResult's
  double gap = 0;                  ///< mean µs from the end of a short one to the start of the next, queued by then
  double long_gap = 0;             ///< the same after kernels of kLongKernel or more
  std::vector<std::string> notes;  ///< programs that did not fit into the GPU's memory
};

/// Collective over the session's ranks, whose number is `ranks`. `sources`: SmHolder's. `say` hears the name of each
/// program.
[[nodiscard]] ProbedKernels probe_kernels(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks,
                                          std::span<const Address> sources,
                                          const std::function<void(std::string_view)>& say);

/// Microseconds that issuing one step of host_bound_steps.hpp takes this rank while its GPU has nothing else to do:
/// nothing holds it up, neither a full queue nor other ranks. Collective.
[[nodiscard]] double probe_host_step(Executor& executor, Groups& groups, HostBoundStep step, std::uint32_t rank,
                                     std::uint32_t ranks);

}  // namespace foreshard::gpu
