// Every message of a pipelined ring, to the nanosecond: when each rank of a ring collective is done, where links and
// the ranks' beginnings differ.
//
// Rank i sends over hop i to rank i + 1, the last one to the first, `steps` messages one after another: n - 1 in an
// all-gather or a reduce-scatter, 2(n - 1) in an all-reduce. A hop carries one message at a time, for a time of its
// own, which is the same for each of its messages. Message s leaves a rank once it has sent its message s - 1 and
// received the one that it forwards; a reduction is part of the hop's time (NCCL adds while it sends, 2.28.9,
// src/device/prims_simple.h, recvReduceSend):
//
//     end(1, i) = begin(i) + time(i)
//     end(s, i) = max(end(s - 1, i), end(s - 1, i - 1)) + time(i)
//
// Unrolled: of every run of L consecutive hops that ends at i, each is paid once and the slowest s - L times more,
//
//     end(s, i) = max over L = 1 … s of begin(i - L + 1) + sum of times + (s - L) · slowest time
//
// where taking any hop of the run for the slowest gives no more. So for each different time of a hop a maximum over a
// sliding window is enough: O(different times · (ranks + steps)) in place of ranks · steps messages.
//
// Who: sim/collectives, which holds its steady pipeline against it; `foreshard collectives --messages`. Deterministic;
// a constant after construction, but for the working memory of run(): one object a thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// How long one message is on a hop: its latency and `bytes` at `gb_per_s` (bytes a nanosecond), rounded to the nearest
/// nanosecond each; at most kLongestOp (sim/machine/longest_op.hpp).
[[nodiscard]] Nanoseconds message_time(Nanoseconds latency, double bytes, double gb_per_s);

class MessageRing {
 public:
  /// Which of two equal ways: `choose` takes the faster one. Tests compare them.
  enum class Way : std::uint8_t { choose, by_time, by_message };

  /// One time a rank, that of the hop to the next rank; none below 0 or above kLongestOp.
  explicit MessageRing(std::vector<Nanoseconds> hop_times, Way way = Way::choose);

  /// One collective. `ranks`: when each begins, none below 0; afterwards when it has sent and received its last
  /// message, which is when it may begin the communicator's next collective. A ring of one rank sends nothing. At most
  /// kMax ranks and steps together.
  void run(std::uint32_t steps, std::vector<Nanoseconds>& ranks);

  /// Sums of so many of the longest times fit 63 bits.
  static constexpr std::uint32_t kMax = 1U << 19;

 private:
  struct Candidate {
    std::int64_t value = 0;
    std::uint32_t from = 0;  ///< where the run of hops begins
  };
  [[nodiscard]] bool takes_times(std::uint32_t steps) const;
  void by_time(std::uint32_t steps, const std::vector<Nanoseconds>& begin);
  void with_slowest(std::int64_t slowest, std::uint32_t steps, const std::vector<Nanoseconds>& begin);
  void by_message(std::uint32_t steps, const std::vector<Nanoseconds>& begin);

  std::vector<std::int64_t> times_;
  std::vector<std::int64_t> different_;  ///< times, ascending, each once
  Way way_;
  std::vector<std::int64_t> ends_;   ///< of each hop's last message
  std::vector<std::int64_t> other_;  ///< by_message: the step before
  std::vector<std::int64_t> sums_;   ///< by_time: of the hops before a place on the unrolled ring
  std::vector<Candidate> window_;    ///< values descend from first_ on
};

}  // namespace foreshard::sim
