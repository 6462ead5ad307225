#include "gpu/collectives/transfer_plan.hpp"

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::gpu {
namespace {

TransferOp copy(std::uint32_t lane, Place from, Place to, Bytes bytes) {
  TransferOp op;
  op.lane = lane;
  op.kind = TransferOp::Kind::copy;
  op.from = from;
  op.to = to;
  op.bytes = bytes;
  return op;
}

TransferOp signal(std::uint32_t lane, TransferOp::Kind kind, Flag flag, std::uint32_t peer, std::uint32_t slot,
                  std::uint32_t value) {
  TransferOp op;
  op.lane = lane;
  op.kind = kind;
  op.flag = flag;
  op.peer = peer;
  op.slot = slot;
  op.value = value;
  return op;
}

/// The i-th peer in the order that gives every rank another partner at each step: rank + 1, rank + 2, …
std::uint32_t peer_of(std::uint32_t ranks, std::uint32_t rank, std::uint32_t i) {
  return (rank + 1 + i) % ranks;
}

/// Marks what a lane has so far; another lane follows.
void hand_over(std::vector<TransferOp>& body, std::uint32_t from, std::uint32_t to, std::uint32_t number) {
  TransferOp op;
  op.slot = number % kMostMarks;
  op.kind = TransferOp::Kind::mark;
  op.lane = from;
  body.push_back(op);
  op.kind = TransferOp::Kind::follow;
  op.lane = to;
  body.push_back(op);
}

}  // namespace

namespace {

/// Tells all peers, and waits until all of them have told.
void meet(std::vector<TransferOp>& ops, const GatherShape& s, std::uint32_t slot) {
  if (s.ranks == 1) return;
  ops.push_back(signal(0, TransferOp::Kind::write, Flag::posted, s.rank, slot, s.sequence));
  for (std::uint32_t i = 0; i + 1 < s.ranks; ++i) {
    ops.push_back(signal(0, TransferOp::Kind::wait, Flag::posted, peer_of(s.ranks, s.rank, i), slot, s.sequence));
    ops.back().there = true;
  }
}

}  // namespace

TransferPlan plan_gather(const GatherShape& s) {
  TransferPlan plan;
  const Place own = s.in_place ? Place{s.rank, Buffer::output, s.rank * s.slice} : Place{s.rank, Buffer::input, 0};
  meet(plan.before, s, 0);
  for (std::uint32_t i = 0; s.slice != 0 && i < s.ranks; ++i) {
    const std::uint32_t to = peer_of(s.ranks, s.rank, i);  // itself last
    if (to != s.rank || !s.in_place) plan.body.push_back(copy(0, own, {to, Buffer::output, s.rank * s.slice}, s.slice));
  }
  meet(plan.after, s, 1);
  return plan;
}

ScatterChunks cut_slices(Bytes slice, const ScatterTuning& tuning) {
  if (slice == 0) return {};
  // Whole 4 KiB pieces keep every chunk's start aligned as its slice is.
  constexpr Bytes kPiece = 4 * kKiB;
  const Bytes wanted = std::max<Bytes>(tuning.least_chunk, (slice + tuning.least_chunks - 1) / tuning.least_chunks);
  Bytes chunk = std::min<Bytes>(tuning.slot, (wanted + kPiece - 1) / kPiece * kPiece);
  const Bytes count = (slice + chunk - 1) / chunk;
  chunk = std::min(chunk, ((slice + count - 1) / count + kPiece - 1) / kPiece * kPiece);
  return {chunk, static_cast<std::uint32_t>((slice + chunk - 1) / chunk)};
}

Bytes staging_offset(const ScatterTuning& tuning, std::uint32_t source, std::uint32_t chunk) {
  return (Bytes{source} * tuning.slots + chunk % tuning.slots) * tuning.slot;
}

namespace {

std::uint32_t chunks_of_round(const ScatterChunks& chunks, const ScatterTuning& tuning) {
  const Bytes most = std::max<Bytes>(1, tuning.round / std::max<Bytes>(1, chunks.chunk));
  return static_cast<std::uint32_t>(std::min<Bytes>(most, tuning.slots));
}

/// All ranks are here, and the slots of this round are free: credit for its last chunk's slot says so for all before.
void start_round(TransferPlan& plan, const ScatterShape& s, const ScatterTuning& tuning, std::uint32_t round,
                 std::uint32_t last_chunk) {
  using Kind = TransferOp::Kind;
  const std::uint32_t value = s.first_round + round + 1;
  for (std::uint32_t i = 0; i + 1 < s.ranks; ++i)
    plan.body.push_back(signal(0, Kind::write, Flag::round, peer_of(s.ranks, s.rank, i), 0, value));
  for (std::uint32_t i = 0; i + 1 < s.ranks; ++i) {
    const std::uint32_t peer = peer_of(s.ranks, s.rank, i);
    plan.body.push_back(signal(0, Kind::wait, Flag::round, peer, 0, value));
    // What lay there a lap ago; in the first lap there is nothing and the flag, 0, is enough.
    plan.body.push_back(
        signal(0, Kind::wait, Flag::credit, peer, last_chunk % tuning.slots, last_chunk + 1 - tuning.slots));
  }
}

}  // namespace

std::uint32_t count_rounds(const ScatterChunks& chunks, const ScatterTuning& tuning) {
  const std::uint32_t each = chunks_of_round(chunks, tuning);
  return (chunks.count + each - 1) / each;
}

TransferPlan plan_scatter(const ScatterShape& s, const ScatterTuning& tuning) {
  using Kind = TransferOp::Kind;
  FORESHARD_CHECK((tuning.slots & (tuning.slots - 1)) == 0, "slots divide 2^32, or running numbers would jump");
  const ScatterChunks chunks = cut_slices(s.staged, tuning);
  const std::uint32_t peers = s.ranks - 1;
  TransferPlan plan;
  if (peers == 0) return plan;
  plan.lanes = 2;
  const std::uint32_t each = chunks_of_round(chunks, tuning);
  for (std::uint32_t k = 0; k < chunks.count; ++k) {
    const std::uint32_t number = s.first_chunk + k;
    if (k % each == 0) start_round(plan, s, tuning, k / each, s.first_chunk + std::min(k + each, chunks.count) - 1);
    const Bytes offset = k * chunks.chunk;
    const Bytes bytes = std::min(chunks.chunk, s.staged - offset);
    for (std::uint32_t i = 0; i < peers; ++i) {
      const std::uint32_t peer = peer_of(s.ranks, s.rank, i);
      plan.body.push_back(copy(0, {s.rank, Buffer::input, peer * s.slice + offset},
                               {peer, Buffer::staging, staging_offset(tuning, s.rank, number)}, bytes));
    }
    hand_over(plan.body, 0, 1, k);
    for (std::uint32_t i = 0; i < peers; ++i)
      plan.body.push_back(
          signal(1, Kind::write, Flag::arrived, peer_of(s.ranks, s.rank, i), number % tuning.slots, number + 1));
  }
  return plan;
}

}  // namespace foreshard::gpu
