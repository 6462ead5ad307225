// From what `foreshard probe` measured to a machine profile: fit_machine()'s fit, and with it latencies
// and host costs.
//
// Who: cli/gpu, which copies gpu/probe's result into ProbeMeasurements field by field. Where each number comes from and
// how the host's calls follow from the timed steps stands in docs/gpu.md. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>

#include "sim/calibrate/fit_machine.hpp"
#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// What one machine's probe measured. Times are microseconds; 0, where nothing else is said: not measured, the base's
/// value stays.
struct ProbeMeasurements {
  /// Between two operations. That of a launch is not here: under CUPTI one takes longer than without it.
  struct Latencies {
    double kernel_gap = 0;        ///< end of a queued kernel shorter than long_kernel_from to the start of the next
    double long_kernel = 0;       ///< what that gap is longer by after kernels of long_kernel_from or more
    double long_kernel_from = 0;  ///< the length that tells the two apart
    double all_gather_gap = 0;    ///< what it is longer by while an all-gather of NCCL's waits on another stream
    double copy_gap = 0;          ///< the gap around a small copy
    double event_wait = 0;        ///< end of an op to the start of one that waits for it on another stream
    double communicator_gap = 0;  ///< end of a collective to the start of the communicator's next, on another stream
    double synchronize = 0;       ///< end of what the host waits for to the host going on
  };
  /// What one call costs foreshard's own host, from an empty queue; always measured.
  struct Host {
    double kernel = 0;
    double gemm = 0;
    double collective = 0;           ///< NCCL's
    double symm_mem_collective = 0;  ///< low-contention; 0: not there
    double event = 0;                ///< record
    double wait = 0;                 ///< a stream's wait
    double section_step = 0;  ///< issuing HostBoundStep::sections (core/models/host_bound_steps.hpp), from an idle GPU
    double kernel_step = 0;   ///< issuing HostBoundStep::kernels
  };
  /// A copy on a stream of high priority, as FSDP2's copy-in runs, beside kernels of the compute stream.
  struct SideCopy {
    double slowdown = 0;      ///< its time over its isolated time
    double compute_lost = 0;  ///< what memory-bound kernels lose, over the time that the copy runs: from 0 to 1
    double gemm_lost = 0;     ///< the same of GEMMs of many waves
  };

  Measurements samples;  ///< collectives and kernels alone, contention, rates; its gpu is the device's name
  std::uint32_t ranks = 1;
  std::string cuda_driver;  ///< version: "13.0"
  std::string nccl;         ///< version: "2.28.9"
  std::string date;         ///< "2026-11-21"
  Bytes memory_total = 0;
  Bytes memory_other = 0;         ///< taken outside the caching allocator with everything loaded
  double pcie = 0;                ///< GB/s, pinned host to device
  std::uint32_t held_sms = 0;     ///< SMs occupied while kernels were timed a second time (gpu/probe/sm_holder.hpp)
  double streamed_bandwidth = 0;  ///< GB/s that their CTAs moved while kernels were timed a third time
  Latencies latencies;
  Host host;
  SideCopy side_copy;
};

/// Extends `base`, a built-in profile, under `name`. /host/calls of the result are those of foreshard's own host
/// program, so that plans with it predict `run`, not PyTorch. Errors as fit_machine().
[[nodiscard]] Result<MachineFit> fit_probe(const ProbeMeasurements& probed, const std::string& name,
                                           const std::string& base);

}  // namespace foreshard::sim
