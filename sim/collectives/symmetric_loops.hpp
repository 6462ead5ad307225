// How long a symmetric kernel without multicast takes to store to peers, or to load from them and add: the three loops
// of bcast() and reduce() in NCCL 2.28.9's src/device/symmetric.
//
// A rank's part is walked by loops, one after the other: by packs of 16 bytes, by packs of 4, by single elements. In
// each a warp takes a piece and goes from one peer to another; one that loads waits for every few peers before it goes
// on. The loops of packs take only so many chunks that all get equally many: of an all-gather all CTAs, of a
// reduce-scatter those of all ranks. The rest is left to the next loop. So a reduce-scatter whose parts have fewer
// chunks of 8 KiB than there are ranks · CTAs has no loop of 16 bytes at all, and what is left to single elements may
// take longer than everything else.
//
// Used by symmetric.cpp. Pure.
#pragma once

namespace foreshard::sim {

inline constexpr double kSymmetricWarps = 16;  ///< of a CTA (src/sym_kernels.cc, ncclSymkPickKernel)

struct SymmetricLoops {
  bool loads = false;  ///< and adds; else stores
  double part = 0;     ///< bytes of one rank's shard
  double ranks = 2;
  double ctas = 1;
  double element = 4;    ///< bytes; all-gathers move single bytes, whatever they are of
  double rate = 0;       ///< GB/s of a GPU's links while enough is on its way
  double warp_rate = 0;  ///< GB/s that one warp moves
  double wait = 0;       ///< us a warp waits for what it loads from a peer
};

[[nodiscard]] double symmetric_loops_us(const SymmetricLoops& loops);

}  // namespace foreshard::sim
