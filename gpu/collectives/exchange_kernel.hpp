// Small all-gathers and reduce-scatters in one kernel: each rank stores what a peer gets into that peer's inbox, in
// lines that say themselves when they are there. No barrier before the bytes move, and none after.
//
// Who: symm_mem_collectives.cpp, for what a copy engine's start and two barriers would dominate. A line is 128 bytes:
// 120 of data and, last, the number of the call. Eight threads of a warp store one at once, and over NVLink it becomes
// visible at once: the protocol LL128 of NCCL 2.28.9 (src/device/prims_ll128.h), which NCCL uses between GPUs of
// compute capability 7.0 and above that NVLink joins (src/graph/tuning.cc). Over PCIe that
// does not hold: symm_mem_collectives.cpp asks CUDA how they are joined.
//
// An inbox has two halves, which calls take in turn. A rank that issues call k has what all ranks sent in call k − 1,
// so they are through with call k − 2, whose half it writes: nobody says that an inbox may be overwritten. Hence each
// call sends every peer a line at least: slices are not empty. Results are
// those of the other ways, bit for bit: sums in float32 in the order of the ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/device/exchange.hpp"
#include "gpu/collectives/transfer_plan.hpp"

namespace foreshard::gpu {

/// Of half an inbox, for buffers of up to `bytes` of any number of ranks up to kMaxPeers; zero before its first call.
[[nodiscard]] constexpr Bytes exchange_half(Bytes bytes) {
  return (bytes / kExchangePayload + kMaxPeers) * kExchangeLine;
}

/// One call on one rank. Shapes: an all-gather's input [slice], output [ranks × slice], in place where the input is
/// this rank's part of it; a reduce-scatter's input [ranks × slice], output [slice / itemsize(input_type)] elements.
/// Memory of any alignment of its elements.
struct ExchangeItem {
  const void* input = nullptr;
  void* output = nullptr;
  char* inbox[kMaxPeers] = {};  ///< by rank: its half of this call, as this process sees it
  Bytes slice = 0;
  std::uint64_t call = 0;  ///< of this kind and group, from 1
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  DType input_type = DType::bfloat16;  ///< of a reduce-scatter, as the next two
  DType output_type = DType::bfloat16;
  float scale = 1.0F;                      ///< multiplies the float32 sum
  const std::uint32_t* abandon = nullptr;  ///< pinned host memory: not 0 ends every wait
};

/// At most `ctas` CTAs of 512 threads on the stream. Errors: CUDA's.
[[nodiscard]] Result<void> launch_exchange_gather(const ExchangeItem& item, std::uint32_t ctas, cudaStream_t stream);
/// Errors: a dtype that is not reducible() (transport_choice.hpp), CUDA's.
[[nodiscard]] Result<void> launch_exchange_reduce(const ExchangeItem& item, std::uint32_t ctas, cudaStream_t stream);

}  // namespace foreshard::gpu
