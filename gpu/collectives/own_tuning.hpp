// How many CTAs foreshard's own reduce-scatter is launched with. Each holds one SM.
//
// Who: symm_mem_collectives.cpp. A machine profile has the same numbers for plans ("/contention/own_reduce").
#pragma once

#include <cstdint>

namespace foreshard::gpu {

/// CTAs of a reduction among `ranks` GPUs, in pairs, as GEMM clusters lie. `upcast`: results are of twice the width of
/// what is summed.
///
/// The fewest that keep up with the links also at the clocks which a GEMM concurrent with them leaves. A CTA fetches
/// all ranks' inputs: with two ranks twice what comes over the links, with four 1.33 times. It stores 45 to 49 GB/s,
/// which binds where few ranks share the results and these are upcast. The kernel for other numbers of ranks than two,
/// four and eight fetches smaller tiles. Measured on H200, 512 MiB, with two, three, four and eight sources
/// (docs/gpu_collectives.md, "How many CTAs").
[[nodiscard]] constexpr std::uint32_t reduce_ctas(std::uint32_t ranks, bool upcast) {
  if (ranks == 4 || ranks == 8) return 10;
  return ranks == 2 && !upcast ? 12 : 16;
}

}  // namespace foreshard::gpu
