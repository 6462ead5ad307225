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

TransferOp gather_copy(std::uint32_t lane, const GatherShape& s, Direction direction, std::uint32_t peer) {
  const Buffer from = s.in_place ? Buffer::output : Buffer::input;
  if (direction == Direction::push)
    return copy(lane, {s.rank, from, s.in_place ? s.rank * s.slice : 0}, {peer, Buffer::output, s.rank * s.slice},
                s.slice);
  return copy(lane, {peer, from, s.in_place ? peer * s.slice : 0}, {s.rank, Buffer::output, peer * s.slice}, s.slice);
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

TransferPlan plan_gather(const GatherShape& s, const GatherTuning& tuning) {
  using Kind = TransferOp::Kind;
  TransferPlan plan;
  const std::uint32_t peers = s.ranks - 1;
  const bool per_peer = tuning.lanes == Lanes::per_peer && peers > 1;
  plan.lanes = per_peer ? peers : 1;
  for (std::uint32_t i = 0; i < peers; ++i)
    plan.before.push_back(signal(0, Kind::write, Flag::ready, peer_of(s.ranks, s.rank, i), 0, s.sequence));
  for (std::uint32_t i = 0; i < peers; ++i) {
    const std::uint32_t peer = peer_of(s.ranks, s.rank, i);
    const std::uint32_t lane = per_peer ? i : 0;
    (per_peer ? plan.body : plan.before).push_back(signal(lane, Kind::wait, Flag::ready, peer, 0, s.sequence));
    if (s.slice != 0) plan.body.push_back(gather_copy(lane, s, tuning.direction, peer));
    (per_peer ? plan.body : plan.after).push_back(signal(lane, Kind::write, Flag::done, peer, 0, s.sequence));
  }
  if (!s.in_place && s.slice != 0)
    plan.body.push_back(copy(0, {s.rank, Buffer::input, 0}, {s.rank, Buffer::output, s.rank * s.slice}, s.slice));
  for (std::uint32_t i = 0; i < peers; ++i)
    plan.after.push_back(signal(0, Kind::wait, Flag::done, peer_of(s.ranks, s.rank, i), 0, s.sequence));
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

std::uint32_t scatter_lanes(const ScatterTuning& tuning, std::uint32_t peers, std::uint32_t chunks) {
  switch (tuning.lanes) {
    case Lanes::one:
      return 1;
    case Lanes::per_peer:
      return std::max<std::uint32_t>(1, peers);
    case Lanes::rotate:
      return std::max<std::uint32_t>(1, std::min(tuning.lane_count, chunks));
    case Lanes::split:
      return 2;
  }
  return 1;
}

}  // namespace

TransferPlan plan_scatter(const ScatterShape& s, const ScatterTuning& tuning) {
  using Kind = TransferOp::Kind;
  FORESHARD_CHECK((tuning.slots & (tuning.slots - 1)) == 0, "slots divide 2^32, or running numbers would jump");
  const ScatterChunks chunks = cut_slices(s.slice, tuning);
  const std::uint32_t peers = s.ranks - 1;
  TransferPlan plan;
  if (peers == 0) return plan;
  plan.lanes = scatter_lanes(tuning, peers, chunks.count);
  for (std::uint32_t k = 0; k < chunks.count; ++k) {
    const std::uint32_t number = s.first_chunk + k;
    const std::uint32_t slot = number % tuning.slots;
    const Bytes offset = k * chunks.chunk;
    const Bytes bytes = std::min(chunks.chunk, s.slice - offset);
    // Three rounds, so that what goes to one lane for all peers becomes one batch each.
    for (const Kind kind : {Kind::wait, Kind::copy, Kind::write}) {
      if (kind == Kind::write && tuning.lanes == Lanes::split) hand_over(plan.body, 0, 1, k);
      for (std::uint32_t i = 0; i < peers; ++i) {
        const std::uint32_t peer = peer_of(s.ranks, s.rank, i);
        std::uint32_t lane = tuning.lanes == Lanes::rotate ? k % plan.lanes : 0;
        if (tuning.lanes == Lanes::per_peer) lane = i;
        if (tuning.lanes == Lanes::split && kind == Kind::write) lane = 1;
        if (kind == Kind::copy)
          plan.body.push_back(copy(lane, {s.rank, Buffer::input, peer * s.slice + offset},
                                   {peer, Buffer::staging, staging_offset(tuning, s.rank, number)}, bytes));
        else if (kind == Kind::write)
          plan.body.push_back(signal(lane, kind, Flag::arrived, peer, slot, number + 1));
        else
          // The chunk that lay there before; in the first lap there is none and the flag, 0, is enough.
          plan.body.push_back(signal(lane, kind, Flag::credit, peer, slot, number + 1 - tuning.slots));
      }
    }
  }
  return plan;
}

}  // namespace foreshard::gpu
