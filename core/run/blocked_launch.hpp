// When a call of a recording was no host work.
#pragma once

#include "core/base/quantity.hpp"

namespace foreshard {

/// A launch that lasts longer was blocked by the stream's full launch queue; a free one takes 4 to 9 us
/// (time model 1.1 and 3.1: cudaLaunchKernel 4.2 to 8, cuLaunchKernelEx 4.4 to 9).
inline constexpr Nanoseconds kBlockedLaunch{40'000};

}  // namespace foreshard
