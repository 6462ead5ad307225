// Measures a machine: what its GPUs, their links and this host achieve, isolated and overlapping.
//
// Who: `foreshard probe`, one process a GPU; cli turns the result into a machine profile (docs/gpu.md). All ranks call
// probe() together; times of collectives are the slowest rank's, everything else is rank 0's. Values are medians of
// repetitions on warm caches; issuing whole steps is the median of all ranks, whose
// processes differ by up to 1.7 in speed (4 x H200 in a virtual machine, 2026-11-22). On four GPUs it takes about a
// minute.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.hpp"
#include "gpu/bootstrap/session.hpp"

namespace foreshard::gpu {

/// SMs that are held while kernels are timed a second and a third time: among what rings (16 to 24) and our own
/// reductions (10 to 16) take. The profile says it ("/contention/held_sms").
inline constexpr std::uint32_t kHeldSms = 12;
/// Kernels of this length or more fill the GPU and its caches: the next one starts later. Recorded steps on 2 and 4 x
/// H200, 2026-11-22, next kernels queued: gaps of 1.3 to 1.6 us after shorter ones, 1.8 to 2.5 after these in Llama-8B.
/// The profile says it ("/latencies/long_kernel_from").
inline constexpr Nanoseconds kLongKernel{20'000};

struct ProbeRequest {
  Bytes largest = 4 * kGiB;  ///< of collectives, whole buffer; less where the GPU has not four times as much free
  bool contention = true;
  std::function<void(std::string_view what)> progress = {};
};

/// One isolated collective; only where the transport that was asked for is the one that ran.
struct ProbedCollective {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;
  double us = 0;
  bool upcasts = false;  ///< bfloat16 into float32, as FSDP2 reduces where the reduction is wider than the parameters
  DType dtype = DType::bfloat16;  ///< of what is sent
};

/// A kernel of foreshard's own, alone, as a step runs it (core/device/device.hpp's KernelWork).
struct ProbedKernel {
  std::string label;
  KernelMath math = {};
  Bytes bytes = 0;
  double us = 0;
  double held_us = 0;      ///< while kHeldSms SMs are held start to end; 0: not measured
  double streamed_us = 0;  ///< while their CTAs stream memory, too
};

/// A kernel and a collective, each alone and each while the other runs all the time.
struct ProbedContention {
  std::string kernel;
  KernelClass kernel_class = KernelClass::gemm;
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;
  double kernel_isolated_us = 0;
  double kernel_concurrent_us = 0;
  double collective_isolated_us = 0;
  double collective_concurrent_us = 0;
  bool upcasts = false;  ///< as ProbedCollective::upcasts
};

/// Microseconds; 0: not measured.
struct ProbedLatencies {
  double launch = 0;            ///< host call to start on an idle stream
  double kernel_gap = 0;        ///< end of a queued kernel shorter than kLongKernel to the start of the next
  double copy_gap = 0;          ///< the same around a small copy
  double event_wait = 0;        ///< end of an op to the start of one that waits for it on another stream
  double communicator_gap = 0;  ///< end of a collective to the start of the communicator's next, on another stream
  double synchronize = 0;       ///< end of what the host waits for to the host going on
  double long_kernel = 0;       ///< what that gap is longer by after kernels of kLongKernel or more
  double gather_gap = 0;        ///< what it is longer by while an all-gather of NCCL's waits on another stream
};

/// What one call costs foreshard's own host, in microseconds, from an empty queue.
struct ProbedHost {
  double kernel = 0;
  double gemm = 0;
  double collective = 0;           ///< NCCL's
  double symm_mem_collective = 0;  ///< low-contention; 0: not there
  double event = 0;                ///< record
  double wait = 0;                 ///< a stream's wait
  double step = 0;         ///< issuing a step of host_bound_steps.hpp's sections, from an idle GPU; 0: not measured
  double kernel_step = 0;  ///< the same of its kernels
};

/// A copy of 256 MiB on a stream of high priority, as FSDP2's copy-in runs, beside memory-bound kernels of the compute
/// stream. 0: not measured.
struct ProbedSide {
  double side = 0;       ///< its time over its isolated time
  double lost = 0;       ///< what the compute stream loses, over the time that the copy runs
  double gemm_lost = 0;  ///< the same of GEMMs of many waves
};

struct ProbeResult {
  std::string gpu;
  std::string nccl;
  std::string driver;
  std::uint32_t sm_count = 0;
  Bytes memory_total = 0;
  Bytes memory_other = 0;  ///< taken outside the caching allocator with everything loaded
  Bytes l2 = 0;
  std::uint32_t copy_engines = 0;
  double hbm_copy = 0;   ///< GB/s, read plus written
  double peer_copy = 0;  ///< GB/s, one pair; 0: no peer memory
  double pcie = 0;       ///< GB/s, pinned host to device
  double gemm_bf16 = 0;  ///< TFLOP/s, 8192³
  double gemm_fp32 = 0;  ///< TFLOP/s, 4096³
  ProbedLatencies latencies;
  ProbedHost host;
  ProbedSide side;
  std::vector<ProbedCollective> collectives;
  std::vector<ProbedContention> contention;
  std::vector<ProbedKernel> kernels;
  double streamed_bandwidth = 0;   ///< GB/s, read plus written, of the CTAs beside ProbedKernel::streamed_us
  std::vector<std::string> notes;  ///< what could not be measured, and why
};

/// Errors: CUDA's, NCCL's, the run's failure. What a machine does not have is a note.
[[nodiscard]] Result<ProbeResult> probe(const ProbeRequest& request, Session& session);

}  // namespace foreshard::gpu
