// How many CTAs foreshard's own reduce-scatter (Transport::pull_reduce) is launched with. Each holds one SM.
//
// Who: gpu/collectives launches so many; a machine profile starts from the same numbers for plans and may say others
// ("/contention/own_reduce").
#pragma once

#include <cstdint>

namespace foreshard {

/// In pairs, as GEMM clusters lie: the fewest that keep up with the links also at the clocks which a GEMM concurrent
/// with them leaves. A CTA fetches all ranks' inputs: with two ranks twice what comes over the links, with four 1.33
/// times. It stores 45 to 49 GB/s, which binds where few ranks share the results and these are upcast. The kernel for
/// other numbers of ranks than two, four and eight fetches smaller tiles. Measured on H200, 512 MiB, with two, three,
/// four and eight sources (docs/gpu_collectives.md, "How many CTAs").
struct PullReduceCtas {
  std::uint32_t two_ranks = 12;
  std::uint32_t two_ranks_upcast = 16;  ///< results of a wider dtype than what is summed
  std::uint32_t four_or_eight_ranks = 10;
  std::uint32_t other_ranks = 16;

  [[nodiscard]] constexpr std::uint32_t of(std::uint32_t ranks, bool upcast) const {
    if (ranks == 4 || ranks == 8) return four_or_eight_ranks;
    if (ranks != 2) return other_ranks;
    return upcast ? two_ranks_upcast : two_ranks;
  }
};

}  // namespace foreshard
