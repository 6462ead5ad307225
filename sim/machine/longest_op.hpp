// The upper limit of one operation's price, and the function that applies it.
//
// Who: whatever prices (prices.cpp, sim/compute, sim/collectives), and the engine, which counts work in 1/2^20 ns of 63
// bits and so takes nothing above 2^42 ns. A price is made of the profile's numbers and of sizes that users choose, so
// each is limited here once; no profile or workload can stop the program with a price.
#pragma once

#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// An hour: six times what PyTorch lets a collective take (c10d's default timeout, kProcessGroupNCCLDefaultTimeout:
/// 10 minutes).
inline constexpr Nanoseconds kLongestOp{3'600'000'000'000};
static_assert(kLongestOp.count < (std::int64_t{1} << 42));

/// `ns` as a time of one operation: at least 0, at most kLongestOp, which is also what no number at all gives.
[[nodiscard]] inline Nanoseconds op_time(double ns) {
  if (!(ns < static_cast<double>(kLongestOp.count))) return kLongestOp;
  return ns > 0 ? Nanoseconds::from_double(ns) : Nanoseconds{};
}

}  // namespace foreshard::sim
