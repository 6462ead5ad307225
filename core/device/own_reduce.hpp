// How many SMs foreshard's own reduce-scatter holds: one a CTA.
//
// Who: gpu/collectives launches so many CTAs (own_collectives.hpp, OwnTuning), sim/collectives prices plans of
// foreshard's program with them, and a probe holds kHeldSms while it times kernels a second time.
#pragma once

#include <cstdint>

namespace foreshard {

/// CTAs of a reduction among `ranks` GPUs, in pairs, as GEMM clusters lie. `widens`: results are of twice the width of
/// what is summed.
///
/// The fewest that keep up with the links also at the clocks which a matrix product beside them leaves. A CTA fetches
/// all ranks' inputs: with two ranks twice what comes over the links, with four 1.33 times. It stores 45 to 49 GB/s,
/// which binds where few ranks share the results and these are widened. The kernel for other numbers of ranks than two,
/// four and eight fetches smaller tiles. Measured on H200, 512 MiB, with two, three, four and eight sources
/// (docs/gpu_collectives.md, "How many CTAs").
[[nodiscard]] constexpr std::uint32_t reduce_ctas(std::uint32_t ranks, bool widens) {
  if (ranks == 4 || ranks == 8) return 10;
  return ranks == 2 && !widens ? 12 : 16;
}

/// SMs that were held from start to end while the `held` of a profile's measured kernels was found: among what our
/// reductions and rings (16 to 24) take. Profiles do not say it: with another number here those that were probed
/// before mean something else.
inline constexpr std::uint32_t kHeldSms = 12;

}  // namespace foreshard
