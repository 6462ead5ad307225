// Times of one stream's ops by their place in it, of those from some place on: what is still needed of them.
#pragma once

#include <cstdint>
#include <vector>

namespace foreshard::sim {

/// A queue that is asked by place. Grows to the most that it ever held.
class RecentTimes {
 public:
  /// Place of the first that is there.
  [[nodiscard]] std::uint32_t begin() const { return begin_; }
  [[nodiscard]] std::uint32_t end() const { return end_; }
  [[nodiscard]] std::int64_t of(std::uint32_t place) const { return times_[place & mask()]; }
  [[nodiscard]] std::int64_t front() const { return of(begin_); }
  void push(std::int64_t time) {
    if (end_ - begin_ == times_.size()) grow();
    times_[end_++ & mask()] = time;
  }
  void pop() { ++begin_; }

 private:
  [[nodiscard]] std::uint32_t mask() const { return static_cast<std::uint32_t>(times_.size()) - 1; }
  void grow() {
    std::vector<std::int64_t> larger(times_.empty() ? 4 : 2 * times_.size());
    for (std::uint32_t place = begin_; place != end_; ++place)
      larger[place & (static_cast<std::uint32_t>(larger.size()) - 1)] = of(place);
    times_ = std::move(larger);
  }

  std::vector<std::int64_t> times_;  // a power of two of them
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace foreshard::sim
