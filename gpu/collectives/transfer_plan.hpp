// What the copy engines do in one of our own collectives: copies, flag writes and flag waits, in lanes.
//
// Who: gpu/collectives turns a plan into stream operations (transfer_runner.hpp); tests run the plans of all ranks
// against each other in every order. Pure: no CUDA, no clock. A lane is a stream of its own; lane 0 is the caller's.
//
// Flags are 32-bit words in symmetric memory that only grow. Rank a writes flag (array, a, slot) of rank b; b waits
// until it is at least a value, compared cyclically (CU_STREAM_WAIT_VALUE_GEQ), so 2^31 operations may pass a waiter.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantity.hpp"
#include "core/device/device.hpp"

namespace foreshard::gpu {

/// Most ranks of a group that our own transports serve: the GPUs of one NVSwitch host.
inline constexpr std::uint32_t kMaxPeers = kMaxLowContentionRanks;
/// Most staging slots a peer has in a reduce-scatter.
inline constexpr std::uint32_t kMaxSlots = 32;

/// Whose flag it is. Each array has kMaxPeers × kMaxSlots words on every rank, by (writer, slot).
enum class Flag : std::uint8_t {
  posted = 0,   ///< gather: this rank's output may be overwritten (slot 0), its copies have landed (slot 1). Written by
                ///< the rank at its own place and polled there by the others: one write instead of one a peer, each of
                ///< which waits for all memory traffic before it. (2 × H200, 4 MiB: 14.9 us instead of 19.7.)
  arrived = 1,  ///< scatter: the chunk in this slot has landed
  credit = 2,   ///< scatter: the chunk that this rank sent into this slot of the writer has been reduced
  round = 3,    ///< scatter: the writer starts this round
  entered = 4,  ///< direct scatter: the writer's input may be read
  consumed = 5,  ///< direct scatter: the writer has read this rank's input
  worker = 6,    ///< this rank's own: reductions that its stream has reached (slot 0), that are complete (slot 1), that
                 ///< are complete on the caller's stream (slots 2 and 3)
};
inline constexpr std::uint32_t kFlags = 7;

enum class Buffer : std::uint8_t { input = 0, output = 1, staging = 2 };

/// A place in a rank's buffer. Staging offsets count from the start of that rank's staging area.
struct Place {
  std::uint32_t rank = 0;
  Buffer buffer = Buffer::input;
  Bytes offset = 0;
};

/// Marks are events within one plan: `follow` makes its lane wait for what the lane of `mark` had before it.
inline constexpr std::uint32_t kMaxMarks = 32;

struct TransferOp {
  enum class Kind : std::uint8_t { copy = 0, write = 1, wait = 2, mark = 3, follow = 4 };
  Kind kind = Kind::copy;
  std::uint32_t lane = 0;
  Place from;                ///< copy
  Place to;                  ///< copy
  Bytes bytes = 0;           ///< copy
  Flag flag = Flag::posted;  ///< write, wait
  std::uint32_t peer = 0;    ///< write: whose flag; wait: who writes it
  bool there = false;        ///< wait: for the flag that the peer wrote at its own place, not here
  std::uint32_t slot = 0;    ///< write, wait; of a mark its number, below kMaxMarks
  std::uint32_t value = 0;   ///< write, wait
};

/// In the order in which the ops are put on their streams: a mark comes before those that follow it.
struct TransferPlan {
  std::uint32_t lanes = 1;
  std::vector<TransferOp> before;  ///< on the caller's stream, before the lanes start
  std::vector<TransferOp> body;    ///< lanes at once; lane 0 on the caller's stream
  std::vector<TransferOp> after;   ///< on the caller's stream, when all lanes are through
};

/// One tensor of an all-gather's output: rank r's slice is at offset + r * slice.
struct GatherPiece {
  Bytes offset = 0;  ///< in the output
  Bytes slice = 0;   ///< bytes that each rank contributes
  Bytes from = 0;    ///< where this rank's begins in its input, if that is not in place
};
struct GatherShape {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;  ///< this one
  std::vector<GatherPiece> pieces;
  bool in_place = true;        ///< the input is slice `rank` of each piece of the output
  std::uint32_t sequence = 1;  ///< one more with each all-gather of the communicator
};
/// Every rank's slices into every rank's output, pushed: one peer after another, all ranks in step, so that no GPU
/// receives from two at a time. (4 × H200: 380 GB/s; from several at a time 220, pulled 364.) A rank's own slices,
/// where they are not in place, are copied on a lane of their own meanwhile: they cross no link.
[[nodiscard]] TransferPlan plan_gather(const GatherShape& shape);

/// How a reduce-scatter's slices are cut and where the pieces wait. The same on all ranks.
struct ScatterTuning {
  std::uint32_t slots = 4;  ///< staging slots per peer; a power of two, at most kMaxSlots
  Bytes longest =
      32 * kMiB;          ///< of a chunk; each copy costs 3.5 us in addition to its bytes, and long ones stay in step
  Bytes last = 4 * kMiB;  ///< the last chunk: what is left to add when all copies have ended
  std::uint32_t growth = 150;  ///< percent: from the end every chunk is so much longer than the one after it
  std::uint32_t together = 2;  ///< chunks between two barriers of the senders
  /// Bytes of one staging slot: what is less than `last` goes with the next chunk.
  [[nodiscard]] Bytes slot() const { return longest + last; }
  /// Bytes of a rank's staging area: one place a rank of the group and slot; its own stays unused.
  [[nodiscard]] Bytes staging(std::uint32_t ranks) const { return slot() * slots * ranks; }
};

/// Most chunks of the shrinking end of a slice.
inline constexpr std::uint32_t kMaxTail = 16;
/// Chunks start at multiples of this: they are aligned as their slice is.
inline constexpr Bytes kPiece = 4 * kKiB;

/// A slice in chunks: what remains, then some of `longest`, then the shrinking end.
struct ScatterChunks {
  std::uint32_t count = 0;
  std::uint32_t tail = 0;  ///< chunks of the shrinking end
  Bytes first = 0;         ///< bytes of chunk 0
  Bytes longest = 0;       ///< of those between it and the end
  Bytes total = 0;
  Bytes tail_begin[kMaxTail] = {};
  [[nodiscard]] constexpr Bytes begin(std::uint32_t k) const {
    if (k >= count) return total;
    if (k + tail >= count) return tail_begin[k + tail - count];
    return k == 0 ? 0 : first + (k - 1) * longest;
  }
  [[nodiscard]] constexpr Bytes bytes(std::uint32_t k) const { return begin(k + 1) - begin(k); }
};
/// Shrinking chunks at the end let the reduction finish soon after the last copy, long ones before it waste no time
/// between copies: a chunk is added while the next, shorter one is on its way.
[[nodiscard]] ScatterChunks cut_slices(Bytes slice, const ScatterTuning& tuning);

struct ScatterShape {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  Bytes slice = 0;                ///< bytes of one rank's result in the input's dtype
  std::uint32_t first_chunk = 0;  ///< chunks of all earlier reduce-scatters of the communicator
  std::uint32_t first_round = 0;  ///< rounds likewise
};
/// Rounds of one reduce-scatter.
[[nodiscard]] std::uint32_t count_rounds(const ScatterChunks& chunks, const ScatterTuning& tuning);
/// Pushes this rank's input into the peers' staging: copies on the caller's stream, the flags that say that they landed
/// on lane 1, so that copying never waits for a flag to be written. The reduction itself
/// (reduce_kernel.hpp) waits for Flag::arrived and writes Flag::credit.
[[nodiscard]] TransferPlan plan_scatter(const ScatterShape& shape, const ScatterTuning& tuning);

/// Where the chunk with the running number `chunk` from rank `source` lies in a staging area.
[[nodiscard]] Bytes staging_offset(const ScatterTuning& tuning, std::uint32_t source, std::uint32_t chunk);

}  // namespace foreshard::gpu
