// One collective as it is put on a stream: what it does, how it moves its bytes, and on which buffers.
//
// Who: core/fsdp issues it, a Device prices or runs it; settings choose the Transport. Plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

enum class CollectiveKind : std::uint8_t { all_gather = 0, reduce_scatter = 1, all_reduce = 2 };

/// How a collective moves its bytes. Names are those of `--all-gather`; values are stored.
enum class Transport : std::uint8_t {
  nccl = 0,             ///< plain NCCL ring or tree, SM kernels
  nccl_registered = 1,  ///< NCCL with registered user buffers
  symmetric = 2,        ///< NCCL symmetric-window kernels
  copy_engine = 3,      ///< NCCL zero-CTA all-gather in symmetric memory: copy engines, no SM
  low_contention = 4,   ///< pytorch#130583: copy-engine pulls in symmetric memory; a reduce-scatter sums a temporary
  pull_reduce = 5,      ///< foreshard's reduce-scatter: one kernel of a few CTAs reads all peers' parts and adds them
};

/// Our own collectives serve groups of one node, of at most so many ranks; NCCL takes larger ones.
inline constexpr std::uint32_t kMaxLowContentionRanks = 8;

/// What a reduce-scatter or an all-reduce does with the ranks' values: FSDP2's is the average (ncclAvg), unless the
/// values were divided before and the transport knows only sums.
enum class Reduction : std::uint8_t { average = 0, sum = 1 };

/// One collective. `bytes` is the whole buffer: for an all-gather the output, for a reduce-scatter
/// the input, for an all-reduce the tensor (nccl-tests' "size").
struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;
  LabelId label;
  DType dtype = DType::float32;  ///< of the elements
  /// Reduce-scatter by pull_reduce alone: dtype of the result where it is not the elements'; sums are made in it.
  std::optional<DType> output_dtype = std::nullopt;
  Address input = 0;   ///< 0: the device only prices it
  Address output = 0;  ///< an all-gather's input may be this rank's part of it
  Reduction reduction = Reduction::average;
};

/// Bytes through one rank's link in each direction: (n−1)/n of the buffer, twice for an all-reduce (nccl-tests'
/// doc/PERFORMANCE.md).
[[nodiscard]] constexpr double bus_bytes(CollectiveKind kind, double bytes, double ranks) {
  return bytes * (ranks - 1) / ranks * (kind == CollectiveKind::all_reduce ? 2 : 1);
}

}  // namespace foreshard
