// Times of foreshard's own kernels, each alone: every kernel of short training steps of models of several sizes.
// Used by probe.cpp alone; errors are DeviceFailures.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "gpu/cuda/groups.hpp"
#include "gpu/kernels/executor.hpp"
#include "gpu/probe/probe.hpp"

namespace foreshard::gpu {

struct ProbedKernels {
  std::vector<ProbedKernel> kernels;
  double gap = 0;                  ///< mean µs from the end of one to the start of the next that was queued by then
  std::vector<std::string> notes;  ///< programs that did not fit into the GPU's memory
};

/// Collective over the session's ranks, whose number is `ranks`. `say` hears the name of each program.
[[nodiscard]] ProbedKernels probe_kernels(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks,
                                          const std::function<void(std::string_view)>& say);

/// Microseconds that issuing one step of host_program.hpp takes this rank. Collective.
[[nodiscard]] double probe_host_step(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks);

}  // namespace foreshard::gpu
