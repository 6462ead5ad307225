// Which kernels a longer gap follows.
//
// Who: the probe measures gaps on both sides of the border, the simulator lays them out.
#pragma once

#include "core/base/quantity.hpp"

namespace foreshard {

/// Kernels of this length or more fill the GPU and its caches: the next one starts later. Recorded steps on 2 and 4 x
/// H200, 2026-11-22, next kernels queued: 1.3 to 1.6 us after kernels below 20 us, 1.8 to 2.5 after those above in
/// Llama-8B.
inline constexpr Nanoseconds kLongKernel{20'000};

}  // namespace foreshard
