// Times of one stream's ops by their place in it, of those from some place on: what is still needed of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace foreshard::sim {

/// A queue that is asked by place. Grows to the most that it ever held.
class RecentTimes {
 public:
  /// Place of the first that is there.
  [[nodiscard]] std::uint32_t begin() const { return begin_; }
  [[nodiscard]] std::uint32_t end() const { return end_; }
  [[nodiscard]] std::int64_t of(std::uint32_t place) const { return times()[place & mask_]; }
  [[nodiscard]] std::int64_t front() const { return of(begin_); }
  void push(std::int64_t time) {
    if (end_ - begin_ > mask_) grow();
    times()[end_++ & mask_] = time;
  }
  void pop() { ++begin_; }

 private:
  [[nodiscard]] std::int64_t* times() { return more_.empty() ? few_.data() : more_.data(); }
  [[nodiscard]] const std::int64_t* times() const { return more_.empty() ? few_.data() : more_.data(); }
  void grow() {
    const std::uint32_t mask = 2 * mask_ + 1;
    std::vector<std::int64_t> larger(mask + std::size_t{1});
    for (std::uint32_t place = begin_; place != end_; ++place) larger[place & mask] = of(place);
    more_ = std::move(larger);
    mask_ = mask;
  }

  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t mask_ = 3;             // one less than there is room for: a power of two
  std::array<std::int64_t, 4> few_{};  // a ring
  std::vector<std::int64_t> more_;     // … of more
};

}  // namespace foreshard::sim
