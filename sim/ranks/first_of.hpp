// Whose time is the first: one time each for a fixed number of things, of which any may change.
//
// Who: sim/ranks/job.cpp, for the ranks of a job.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "sim/engine/engine.hpp"

namespace foreshard::sim {

class FirstOf {
 public:
  /// Each at kNever.
  explicit FirstOf(std::size_t count) : size_(std::bit_ceil(std::max<std::size_t>(count, 1))) {
    times_.assign(2 * size_, kNever);
  }
  void set(std::size_t i, Nanoseconds time) {
    times_[size_ + i] = time;
    for (std::size_t at = (size_ + i) / 2; at > 0; at /= 2) {
      const Nanoseconds first = std::min(times_[2 * at], times_[2 * at + 1]);
      if (times_[at] == first) return;
      times_[at] = first;
    }
  }
  [[nodiscard]] Nanoseconds of(std::size_t i) const { return times_[size_ + i]; }
  [[nodiscard]] Nanoseconds time() const { return times_[1]; }
  /// Whose it is; of equal ones the lowest.
  [[nodiscard]] std::size_t first() const {
    std::size_t at = 1;
    while (at < size_) at = times_[2 * at] <= times_[2 * at + 1] ? 2 * at : 2 * at + 1;
    return at - size_;
  }
  /// Calls `take` with each whose time is at most `time`, ascending; it must not set any.
  template <class Take>
  void each_to(Nanoseconds time, const Take& take) const {
    visit(1, time, take);
  }

 private:
  template <class Take>
  void visit(std::size_t at, Nanoseconds time, const Take& take) const {
    if (times_[at] > time) return;
    if (at >= size_) {
      take(at - size_);
      return;
    }
    visit(2 * at, time, take);
    visit(2 * at + 1, time, take);
  }

  std::size_t size_;
  std::vector<Nanoseconds> times_;  // a tree of minima: of 2i and 2i + 1 at i
};

}  // namespace foreshard::sim
