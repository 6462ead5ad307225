// The two kinds of calls that our own collectives serve.
#pragma once

#include <cstdint>

namespace foreshard::gpu {

enum class CallKind : std::uint32_t { all_gather = 0, reduce_scatter = 1 };
inline constexpr std::uint32_t kCallKinds = 2;

}  // namespace foreshard::gpu
