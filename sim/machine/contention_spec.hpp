// Section "contention" of a machine profile: what ops that run at once have to share, and what kernels and
// collectives take of it. The mechanism is sim/engine/contention.hpp; docs/contention.md derives every number.
//
// Shares are of one GPU: of its SMs, of `memory_bandwidth`, of `link_bandwidth`. No number is about a pair of ops.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/device/pull_reduce_ctas.hpp"
#include "core/kernel/kernel_enum_names.hpp"

namespace foreshard::sim {

/// How a collective's implementation loads the GPU while it runs.
struct CollectivePath {
  double sms = 0;              ///< held from start to end, where the price of the collective does not say
  double memory_per_byte = 0;  ///< bytes of device memory read and written for each byte sent over the link
  double gather_latency = 0;   ///< how much longer an all-gather takes beside a kernel of `pressure` 1
  double reduce_latency = 0;   ///< the same of a reduce-scatter or all-reduce
  double link_bandwidth = 0;   ///< bytes a second, one direction, that collectives of this kind reach together
  /// Pressure of a persistent kernel on foreshard's own reduce-scatter, which has its SMs before such a kernel begins;
  /// 0: that of the kernel's class.
  double persistent_pressure = 0;
};

/// What a kernel of one class takes where its shape is not known (captured kernels).
struct KernelUse {
  double sms = 0;           ///< share of the SMs below which it becomes slower in proportion; 0: needs none
  double memory = 0;        ///< share of its time that stretches as others take memory bandwidth
  double pressure = 0;      ///< how much it delays the memory accesses of others; 1: a copy of large tensors
  std::uint32_t tiles = 0;  ///< of a GEMM, one an SM; 0: its work divides evenly
  bool persistent = false;  ///< its blocks fill SMs from its start to its end: what needs SMs waits for that end
};

/// Defaults are what a profile means that was written before it could say otherwise.
struct ContentionSpec {
  double memory_bandwidth = 0;  ///< bytes a second that kernels and collectives reach together
  CollectivePath ring;
  CollectivePath symmetric;
  CollectivePath copy_engine;
  PullReduceCtas own_reduce;  ///< SMs that pull_reduce holds, one a CTA
  /// SMs that were held from start to end while the `held` factors of measured kernels (compute_spec.hpp) were found.
  double held_sms = 12;
  /// Bytes a second, read and written, that the CTAs on these SMs moved while `streamed` factors were found; 0: none
  /// were.
  double streamed_bandwidth = 0;
  double tail_tile = 1;  ///< time of a tile computed after the others are done, over that of a tile among all
  /// GEMMs of more tiles than this many times the SMs hand tiles out one by one; others fix them in advance.
  double static_waves = 0;
  double side_kernel =
      1;  ///< time of a kernel of another stream beside one of the compute stream, over its isolated time
  double with_side_kernel =
      1;  ///< time of a compute-stream kernel beside one of another stream, over its isolated time
  /// The same of a resident one, in recordings: what is taken off where both overlap. In a simulation they take turns.
  double persistent_side = 1;
  double full_rate_sms = 0;  ///< share of the SMs on which a kernel moves bytes at the full memory rate
  double busy_link = 0;      ///< share of its channels' rate from which on a collective moves bytes all the time
  double usual_link = 0;     ///< share of its link that an all-gather of large blocks uses alone
  double most_traffic = 0;   ///< of the memory bandwidth that others take from a kernel at most
  /// Measured loss while held_sms SMs are held from which on a kernel is taken for one wave of blocks that have their
  /// tiles dealt in advance: a block that finds no SM does its full share afterwards (docs/contention.md).
  double one_wave = 0;
  double least_loss = 0;                                    ///< below it the model does not scale a measured loss
  std::uint32_t cluster = 1;                                ///< SMs whose blocks start together, of GEMMs
  std::array<KernelUse, kEnumSize<KernelClass>> classes{};  ///< by KernelClass
};

}  // namespace foreshard::sim
