// The reduction of our own reduce-scatter: a few CTAs that sum what copy engines bring, in the order of the ranks.
//
// Who: symm_mem_collectives.cpp. One launch works on one item (a reduce-scatter); with a linger time it stays on its
// SMs and takes the next item too, so that a collective need not wait for a GEMM that fills the GPU to end first. Why
// that matters: cuBLAS' sm_90 GEMMs are persistent (grid 2 × 66, all registers of an SM), so a kernel launched
// while one runs starts when it ends; an NCCL ring of 1.3 ms under 1.6 ms GEMMs takes 1.7 ms.
//
// Result: out[i] = convert(scale * ((x0[i] + x1[i]) + x2[i] + …)) in fp32, x by rank: the same bits in every run, on
// any number of CTAs and for any chunk size. Memory order: data is read after an acquire of Flag::arrived at system
// scope; credit and completion are released at system scope after the last read and write.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/base/error.hpp"
#include "gpu/collectives/transfer_plan.hpp"

namespace foreshard::gpu {

/// One reduce-scatter on one rank, as the kernel sees it. Direct: the peers' slices are read where they lie, as one
/// chunk, or one for each tensor. Staged: they come into slots here, chunk by chunk.
struct ReduceItem {
  const void* source[kMaxPeers] = {};       ///< by rank: its slice where it lies, or its first slot here
  std::uint32_t* ready[kMaxPeers] = {};     ///< by writer: this rank's flags, [slot]: the chunk may be read
  std::uint32_t* answer[kMaxPeers] = {};    ///< by peer: where this rank says that it has read the chunk, [slot]
  std::uint32_t* enter[kMaxPeers] = {};     ///< direct, by peer: where this rank says that its input is complete
  std::uint32_t* consumed[kMaxPeers] = {};  ///< direct, by writer: peers that have read this rank's input
  void* output = nullptr;
  ScatterChunks chunks;  ///< of a slice; direct: one, or one a tensor
  /// Direct, of several tensors: this rank's part of each, by tensor and rank, and how much of its chunk there is.
  const void* tensor[kMaxTail][kMaxPeers] = {};
  std::uint32_t tensor_bytes[kMaxTail] = {};
  std::uint32_t tensors = 0;  ///< 0: one buffer, `source`
  std::uint64_t slot_bytes = 0;
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  std::uint32_t first_chunk = 0;  ///< chunks of this kind's items before it
  std::uint32_t slots = 1;        ///< direct: one
  std::uint32_t number = 0;       ///< of this item on this rank, from 0
  std::uint32_t direct = 0;       ///< 1 or 0
  std::uint32_t aligned = 0;      ///< every address and chunk is a multiple of 16 bytes: bulk copies may be used
  DType input_type = DType::bfloat16;
  DType output_type = DType::bfloat16;
  float scale = 1.0F;
};

inline constexpr std::uint32_t kItemRing = 64;
/// When the kernel worked on an item, in nanoseconds of the GPU's %globaltimer: the profiler knows the launches alone,
/// of which one may do several items and stay on after them, and others then none.
struct ItemTime {
  std::uint64_t begin = 0;   ///< the caller's stream has come to it; the peers' data may not be there yet
  std::uint64_t end = 0;     ///< complete
  std::uint32_t number = 0;  ///< of the item, from 1: 0 is none
  std::uint32_t launch = 0;  ///< which item's launch did it, from 1
};
inline constexpr std::uint32_t kItemTimes = 1024;
/// What a CTA takes at a time, of all ranks together, where they are 2, 4 or 8; of others less.
inline constexpr Bytes kReduceTile = 64 * kKiB;

/// What the kernel and the host share. Device memory unless said otherwise.
struct ReduceLinks {
  std::uint32_t* finished = nullptr;  ///< CTAs through with the present item
  std::uint32_t* counters = nullptr;  ///< [kMaxSlots]: CTAs through with a slot's chunk
  std::uint32_t* started = nullptr;   ///< items that are in the ring and that the caller's stream has reached
  std::uint32_t* complete = nullptr;  ///< items whose result is written
  /// (next item << 1) | whether the stream reached it in time: the present launch takes it if its dtypes are the same
  std::uint64_t* decision = nullptr;
  const ReduceItem* ring = nullptr;        ///< pinned host memory, by number % kItemRing
  std::uint32_t* complete_host = nullptr;  ///< pinned host memory: `complete` for the host
  ItemTime* times = nullptr;               ///< pinned host memory, by number % kItemTimes; null: nobody asks
  const std::uint32_t* abandon = nullptr;  ///< pinned host memory: not 0 ends every wait
  std::uint64_t linger_ns = 0;             ///< how long to wait on the SMs for the next item; 0: not at all
};

struct ReduceLaunch {
  std::uint32_t ctas = 0;     ///< at least one
  std::uint32_t cluster = 2;  ///< CTAs of a cluster, a divisor of ctas: taken SMs lie in pairs, as GEMM clusters do
};

/// Whether the current device runs the kernel: the build has machine code of some architectures alone. Errors: it does
/// not.
[[nodiscard]] Result<void> reduce_runs_here();

/// Puts a launch for `item` on the stream. Errors: a dtype that is not reducible() (transport_choice.hpp), CUDA's.
[[nodiscard]] Result<void> launch_reduce(const ReduceItem& item, const ReduceLinks& links, const ReduceLaunch& launch,
                                         cudaStream_t stream);

}  // namespace foreshard::gpu
