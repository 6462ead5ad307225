// How many SMs foreshard's own reduce-scatter holds: one a CTA.
//
// Who: gpu/collectives launches so many CTAs (own_collectives.hpp, OwnTuning), sim/collectives prices plans of
// foreshard's program with them, and a probe holds kHeldSms while it times kernels a second time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace foreshard {

/// CTAs of a reduction into the dtype of what is summed: the fewest that keep up with the links (4 × H200, 512 MiB, a
/// former kernel: 8 reach 320 GB/s, 24 326; docs/gpu_collectives.md).
inline constexpr std::uint32_t kReduceCtas = 8;

/// CTAs, if more than those, where results are wider than what is summed: a CTA stores at most 49 GB/s, so such a
/// reduction is bound by its stores (bfloat16 into float32, 2 × H200: 194 GB/s by 8 CTAs, 284 by 12).
inline constexpr std::uint32_t kWideReduceCtas = 12;

/// CTAs of a reduction. `widens`: its results are wider than what is summed.
[[nodiscard]] constexpr std::uint32_t reduce_ctas(bool widens) {
  return widens ? std::max(kReduceCtas, kWideReduceCtas) : kReduceCtas;
}

/// SMs that were held from start to end while the `held` of a profile's measured kernels was found: as many as the
/// widening reduction takes, between the other's and a ring's 16 to 24. Profiles do not say it: with another number
/// here those that were probed before mean something else.
inline constexpr std::uint32_t kHeldSms = kWideReduceCtas;

}  // namespace foreshard
