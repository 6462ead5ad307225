#include "sim/network/message_ring.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {

Nanoseconds message_time(Nanoseconds latency, double bytes, double gb_per_s) {
  return std::min(latency + op_time(bytes / gb_per_s), kLongestOp);
}

MessageRing::MessageRing(std::vector<Nanoseconds> hop_times, Way way) : way_(way) {
  times_.reserve(hop_times.size());
  for (const Nanoseconds time : hop_times) {
    FORESHARD_CHECK(time >= Nanoseconds{} && time <= kLongestOp, "a hop takes from 0 to the longest op");
    times_.push_back(time.count);
  }
  different_ = times_;
  std::sort(different_.begin(), different_.end());
  different_.erase(std::unique(different_.begin(), different_.end()), different_.end());
}

void MessageRing::run(std::uint32_t steps, std::vector<Nanoseconds>& ranks) {
  FORESHARD_CHECK(ranks.size() == times_.size(), "one beginning a hop");
  if (ranks.size() < 2 || steps == 0) return;
  FORESHARD_CHECK(ranks.size() <= kMax && steps <= kMax - ranks.size(), "more messages than sums can hold");
  ends_.resize(ranks.size());
  if (takes_times(steps))
    by_time(steps, ranks);
  else
    by_message(steps, ranks);
  std::int64_t before = ends_.back();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].count = std::max(ends_[i], before);
    before = ends_[i];
  }
}

bool MessageRing::takes_times(std::uint32_t steps) const {
  if (way_ != Way::choose) return way_ == Way::by_time;
  // A place of the unrolled ring costs as much as some eight messages (bench_messages).
  constexpr std::uint64_t kPlace = 8;
  const std::uint64_t places = different_.size() * (times_.size() + std::uint64_t{steps});
  return kPlace * places <= times_.size() * std::uint64_t{steps};
}

void MessageRing::by_time(std::uint32_t steps, const std::vector<Nanoseconds>& begin) {
  // Place p of the unrolled ring is rank (p - (steps - 1)) mod n: rank i at place i + steps - 1 has all its runs before
  // it.
  const std::size_t places = times_.size() + steps - 1;
  sums_.resize(places + 1);
  sums_[0] = 0;
  std::size_t rank = (times_.size() - (steps - 1) % times_.size()) % times_.size();
  for (std::size_t p = 0; p < places; ++p) {
    sums_[p + 1] = sums_[p] + times_[rank];
    if (++rank == times_.size()) rank = 0;
  }
  window_.resize(places);
  std::fill(ends_.begin(), ends_.end(), 0);
  for (const std::int64_t slowest : different_) with_slowest(slowest, steps, begin);
}

void MessageRing::with_slowest(std::int64_t slowest, std::uint32_t steps, const std::vector<Nanoseconds>& begin) {
  const std::size_t n = times_.size();
  std::size_t first = 0, last = 0;  // of window_
  std::uint32_t waiting = 0;        // places from here on have no hop of this time after them yet
  std::size_t waiting_rank = (n - (steps - 1) % n) % n, rank = waiting_rank;
  for (std::uint32_t p = 0; p < n + steps - 1; ++p) {
    if (times_[rank] == slowest)
      for (; waiting <= p; ++waiting) {
        const std::int64_t value = begin[waiting_rank].count - sums_[waiting] + waiting * slowest;
        if (++waiting_rank == n) waiting_rank = 0;
        while (last > first && window_[last - 1].value <= value) --last;
        window_[last++] = {value, waiting};
      }
    if (++rank == n) rank = 0;
    if (p + 1 < steps) continue;
    const std::uint32_t out = p + 1 - steps;  // rank, and the first place of its longest run
    while (first < last && window_[first].from < out) ++first;
    if (first == last) continue;
    const std::int64_t rest = (std::int64_t{steps} - 1 - p) * slowest;
    ends_[out] = std::max(ends_[out], window_[first].value + sums_[p + 1] + rest);
  }
}

void MessageRing::by_message(std::uint32_t steps, const std::vector<Nanoseconds>& begin) {
  const std::size_t n = times_.size();
  other_.resize(n);
  for (std::size_t i = 0; i < n; ++i) ends_[i] = begin[i].count + times_[i];
  for (std::uint32_t step = 1; step < steps; ++step) {
    std::swap(ends_, other_);
    const std::int64_t* const before = other_.data();
    const std::int64_t* const times = times_.data();
    std::int64_t* const ends = ends_.data();
    ends[0] = std::max(before[0], before[n - 1]) + times[0];
    for (std::size_t i = 1; i < n; ++i) ends[i] = std::max(before[i], before[i - 1]) + times[i];
  }
}

}  // namespace foreshard::sim
