// One collective as it is put on a stream: what it does, how it moves its bytes, and on which buffers.
//
// Who: core/fsdp issues it, a Device prices or runs it; settings choose the Transport. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

/// FSDP2 issues the first three; a user's program any of them (core/workload/process_group.hpp). Values are stored.
enum class CollectiveKind : std::uint8_t {
  all_gather = 0,
  reduce_scatter = 1,
  all_reduce = 2,
  all_to_all = 3,  ///< every rank sends a part to every other: Ulysses attention, a mixture of experts
  broadcast = 4,
  reduce = 5,     ///< to one rank
  send_recv = 6,  ///< a batch of sends and receives, as one NCCL group of calls: ring attention, pipelines
};

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
/// values were divided before and the transport knows only sums. The maximum is an all-reduce's by plain NCCL alone.
enum class Reduction : std::uint8_t { average = 0, sum = 1, maximum = 2 };

/// A tensor that is sharded on its first dimension: rank r's part is the bytes from r * part on, as far as the tensor
/// goes.
struct ShardedTensor {
  Address address = 0;
  Bytes part = 0;   ///< of each rank, padded
  Bytes bytes = 0;  ///< of the tensor, at most ranks * part
};

/// One collective. `bytes` is the whole buffer: for an all-gather the output, for a reduce-scatter and an all-to-all
/// the input (an n-th of it is the rank's own), for an all-reduce, a broadcast and a reduce the tensor, for sends and
/// receives what this rank sends or what it receives, the larger (nccl-tests' "size"). A device that moves bytes
/// broadcasts from and reduces to the group's first rank, and sends to the next one, receiving from the one before.
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
  /// Our own transports alone (low_contention, pull_reduce). An all-gather whose output is these tensors, each rank's
  /// input being its parts of them (`bytes` is what all parts are): in place where `input` is the first's address, else
  /// one behind the other from there; a reduce-scatter whose input is these, and whose output is the rank's parts,
  /// padded (with what was there), one behind the other. Empty: one buffer, rank by rank. Theirs who calls.
  std::span<const ShardedTensor> tensors = {};
};

/// Bytes through one rank's link in each direction, as a share of the buffer: (n−1)/n, twice for an all-reduce; all of
/// it where one rank's buffer goes to another or to all (nccl-tests' doc/PERFORMANCE.md).
[[nodiscard]] constexpr double bus_factor(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send_recv:
      return ranks > 1 ? 1 : 0;
    case CollectiveKind::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      break;
  }
  return (ranks - 1) / ranks;
}
[[nodiscard]] constexpr double bus_bytes(CollectiveKind kind, double bytes, double ranks) {
  return bytes * bus_factor(kind, ranks);
}

/// Whether ranks' values are added up (or compared) on the way: then their dtype matters, elsewhere bytes are bytes.
[[nodiscard]] constexpr bool adds(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce;
}
/// Whether FSDP2 issues such ones, and every transport is asked for them; others are plain NCCL's alone.
[[nodiscard]] constexpr bool of_fsdp(CollectiveKind kind) {
  return kind <= CollectiveKind::all_reduce;
}
/// Whether the input is as many parts as there are ranks, or the output is: their number divides it.
[[nodiscard]] constexpr bool has_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::all_to_all;
}

}  // namespace foreshard
