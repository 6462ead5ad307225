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
  op.slot = number % kMaxMarks;
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
  meet(plan.before, s, 0);
  if (!s.in_place && s.ranks > 1) plan.lanes = 2;
  for (std::uint32_t i = 0; i < s.ranks; ++i) {
    const std::uint32_t to = peer_of(s.ranks, s.rank, i);  // itself last
    if (to == s.rank && s.in_place) continue;
    const std::uint32_t lane = to == s.rank ? plan.lanes - 1 : 0;
    for (const GatherPiece& piece : s.pieces) {
      const Bytes place = piece.offset + s.rank * piece.slice;
      const Place own = s.in_place ? Place{s.rank, Buffer::output, place} : Place{s.rank, Buffer::input, piece.from};
      if (piece.slice != 0) plan.body.push_back(copy(lane, own, {to, Buffer::output, place}, piece.slice));
    }
  }
  meet(plan.after, s, 1);
  return plan;
}

ScatterChunks cut_slices(Bytes slice, const ScatterTuning& tuning) {
  ScatterChunks chunks;
  FORESHARD_CHECK(tuning.last > 0 && tuning.last % kPiece == 0 && tuning.longest > 0 && tuning.longest % kPiece == 0 &&
                      tuning.growth > 100 && tuning.together > 0,
                  "chunks of whole pieces that grow from the end");
  if (slice == 0) return chunks;
  chunks.total = slice;
  chunks.longest = tuning.longest;
  std::vector<Bytes> tail;  // from the end
  Bytes left = slice / kPiece * kPiece;
  for (Bytes size = tuning.last; size < tuning.longest && size <= left && tail.size() < kMaxTail;
       size = size * tuning.growth / 100 / kPiece * kPiece) {
    tail.push_back(size);
    left -= size;
  }
  Bytes longs = left / tuning.longest;
  chunks.first = left % tuning.longest;
  if (chunks.first < tuning.last) {
    if (longs != 0) {
      chunks.first += tuning.longest;
      --longs;
    } else if (!tail.empty()) {
      chunks.first += tail.back();
      tail.pop_back();
    }
  }
  chunks.tail = static_cast<std::uint32_t>(tail.size());
  chunks.count = 1 + static_cast<std::uint32_t>(longs) + chunks.tail;
  Bytes begin = chunks.first + longs * tuning.longest;
  for (std::uint32_t i = 0; i < chunks.tail; ++i) {
    chunks.tail_begin[i] = begin;
    begin += tail[chunks.tail - 1 - i];
  }
  return chunks;
}

Bytes staging_offset(const ScatterTuning& tuning, std::uint32_t source, std::uint32_t chunk) {
  return (Bytes{source} * tuning.slots + chunk % tuning.slots) * tuning.slot();
}

namespace {

/// All ranks are here. Ranks that fall out of step send to one receiver at once, which halves both.
void gather_senders(TransferPlan& plan, const ScatterShape& s, std::uint32_t round) {
  using Kind = TransferOp::Kind;
  for (std::uint32_t i = 0; i + 1 < s.ranks; ++i)
    plan.body.push_back(signal(0, Kind::write, Flag::round, peer_of(s.ranks, s.rank, i), 0, round));
  for (std::uint32_t i = 0; i + 1 < s.ranks; ++i)
    plan.body.push_back(signal(0, Kind::wait, Flag::round, peer_of(s.ranks, s.rank, i), 0, round));
}

}  // namespace

std::uint32_t count_rounds(const ScatterChunks& chunks, const ScatterTuning& tuning) {
  return (chunks.count + tuning.together - 1) / tuning.together;
}

TransferPlan plan_scatter(const ScatterShape& s, const ScatterTuning& tuning) {
  using Kind = TransferOp::Kind;
  FORESHARD_CHECK((tuning.slots & (tuning.slots - 1)) == 0, "slots divide 2^32, or running numbers would jump");
  const ScatterChunks chunks = cut_slices(s.slice, tuning);
  const std::uint32_t peers = s.ranks - 1;
  TransferPlan plan;
  if (peers == 0) return plan;
  plan.lanes = 2;
  for (std::uint32_t k = 0; k < chunks.count; ++k) {
    const std::uint32_t number = s.first_chunk + k;
    const std::uint32_t slot = number % tuning.slots;
    if (k % tuning.together == 0) gather_senders(plan, s, s.first_round + k / tuning.together + 1);
    // What lay in the slot a lap ago has been added; in the first lap there is nothing and the flag, 0, is enough.
    for (std::uint32_t i = 0; i < peers; ++i)
      plan.body.push_back(
          signal(0, Kind::wait, Flag::credit, peer_of(s.ranks, s.rank, i), slot, number + 1 - tuning.slots));
    for (std::uint32_t i = 0; i < peers; ++i) {
      const std::uint32_t peer = peer_of(s.ranks, s.rank, i);
      plan.body.push_back(copy(0, {s.rank, Buffer::input, peer * s.slice + chunks.begin(k)},
                               {peer, Buffer::staging, staging_offset(tuning, s.rank, number)}, chunks.bytes(k)));
    }
    hand_over(plan.body, 0, 1, k);
    for (std::uint32_t i = 0; i < peers; ++i)
      plan.body.push_back(signal(1, Kind::write, Flag::arrived, peer_of(s.ranks, s.rank, i), slot, number + 1));
  }
  return plan;
}

}  // namespace foreshard::gpu
