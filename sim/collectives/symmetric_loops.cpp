#include "sim/collectives/symmetric_loops.hpp"

#include <algorithm>
#include <cmath>

#include "sim/collectives/group.hpp"

namespace foreshard::sim {
namespace {

// NCCL's UnrollPacks and MinWarpPerBlock.
constexpr double kLanes = 32;
constexpr double kUnrollPacks = 4;
constexpr double kChunkPieces = 4;

struct Loop {
  double piece = 0;  ///< bytes that a warp moves from or to each peer at once
  double waits = 0;  ///< for loads, before it takes the next piece
};

Loop of_packs(const SymmetricLoops& loops, double pack, double peers_at_once) {
  // The first peer has a round of its own.
  const double rounds = 1 + std::ceil((loops.ranks - 2) / peers_at_once);
  return {pack * kUnrollPacks * kLanes, loops.loads ? rounds : 0};
}

Loop of_elements(const SymmetricLoops& loops) {
  constexpr double kPeersAtOnce = 8;
  return {loops.element * kLanes, loops.loads ? std::ceil((loops.ranks - 1) / kPeersAtOnce) : 0};
}

/// All warps take a piece each, as fast as the links, a warp or its waits allow, until no piece is left; of the last
/// ones some warps have none.
double loop_us(const SymmetricLoops& loops, const Loop& loop, double bytes) {
  const double moved = loop.piece * (loops.ranks - 1);
  const auto turn_us = [&](double pieces) {
    return std::max(
        {loop.waits * loops.wait, transfer_us(moved, loops.warp_rate), transfer_us(pieces * moved, loops.rate)});
  };
  const double warps = kSymmetricWarps * loops.ctas;
  const double pieces = std::ceil(bytes / loop.piece);
  const double turns = std::floor(pieces / warps);
  const double last = pieces - turns * warps;
  return turns * turn_us(warps) + (last > 0 ? turn_us(last) : 0);
}

/// Of `left`, what a loop of packs takes.
double taken(const SymmetricLoops& loops, const Loop& loop, double left) {
  const double chunk = loop.piece * kChunkPieces;
  const double chunks = std::floor(left / chunk);
  return (chunks - std::fmod(chunks, (loops.loads ? loops.ranks : 1) * loops.ctas)) * chunk;
}

bool is_multiple(double bytes, double of) {
  return std::fmod(bytes, of) == 0;
}

}  // namespace

double symmetric_loops_us(const SymmetricLoops& loops) {
  constexpr double kLongPack = 16, kShortPack = 4;
  double us = 0;
  double left = loops.part;
  const auto walk = [&](const Loop& loop) {
    const double bytes = taken(loops, loop, left);
    us += loop_us(loops, loop, bytes);
    left -= bytes;
  };
  // All-gathers are in place, so that both ends lie alike. A rank's part of its peers' inputs lies as its output does
  // where parts are whole packs.
  const auto lies_in = [&](double pack) { return !loops.loads || is_multiple(loops.part, pack); };
  if (lies_in(kLongPack)) walk(of_packs(loops, kLongPack, 2));
  if (loops.element <= kShortPack && lies_in(kShortPack)) walk(of_packs(loops, kShortPack, 4));
  return us + loop_us(loops, of_elements(loops), left);
}

}  // namespace foreshard::sim
