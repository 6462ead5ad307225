// Issue times of one stream's ops that are not done, first to last: a queue that knows its first.
//
// A host runs a launch queue ahead of its GPU, a thousand ops and more; of each but the first only how much later than
// the one before it was issued is kept, in 4 bytes. A queue can go back to where it was marked: what was taken off
// since then keeps its place.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace foreshard::sim {

class IssueTimes {
  struct Far {
    std::vector<std::int64_t> later;  // in order
    std::size_t first = 0;            // not yet taken
  };

 public:
  /// A state that rewind() goes back to.
  class Mark {
    friend class IssueTimes;
    std::int64_t front_ = 0;
    std::int64_t back_ = 0;
    std::uint32_t count_ = 0;
    std::unique_ptr<Far> far_;
  };

  /// Of a queue that is not empty.
  [[nodiscard]] std::int64_t front() const { return front_; }
  /// first to last.
  template <class Take>
  void each(const Take& take) const {
    std::int64_t time = front_;
    std::size_t far = far_ ? far_->first : 0;
    for (std::uint32_t i = 0, place = first_; i < count_; ++i) {
      if (i > 0) {
        place = behind(place);
        time += later_[place] != kFar ? std::int64_t{later_[place]} : far_->later[far++];
      }
      take(time);
    }
  }
  /// Not before the last one.
  void push(std::int64_t time) {
    if (count_ + taken_ == later_.size()) grow();
    if (count_ == 0)
      front_ = time;
    else
      later_.data()[last_ = behind(last_)] = kept(time - back_);
    back_ = time;
    ++count_;
  }
  void pop() {
    if (--count_ == 0) return;
    taken_ += marked_;
    first_ = behind(first_);
    const std::uint32_t later = later_.data()[first_];
    front_ += later != kFar ? later : take_far();
  }
  void mark(Mark& mark) {
    marked_ = 1;
    taken_ = 0;
    mark.front_ = front_;
    mark.back_ = back_;
    mark.count_ = count_;
    mark.far_ = far_ ? std::make_unique<Far>(*far_) : nullptr;
  }
  /// To the last mark(), any number of times.
  void rewind(const Mark& mark) {
    first_ = marked_first();
    taken_ = 0;
    last_ = first_ + (mark.count_ == 0 ? 0 : mark.count_ - 1);
    if (last_ > first_ && last_ >= later_.size()) last_ -= static_cast<std::uint32_t>(later_.size());
    front_ = mark.front_;
    back_ = mark.back_;
    count_ = mark.count_;
    far_ = mark.far_ ? std::make_unique<Far>(*mark.far_) : nullptr;
  }
  /// Into the cache: where times are taken off and where they are added.
  void prefetch() const {
    constexpr std::uint32_t kLine = 16;  // times
    for (std::uint32_t i = 0; i < 4 * kLine && i < later_.size(); i += kLine) {
      __builtin_prefetch(later_.data() + (first_ + i < later_.size() ? first_ + i : 0));
      __builtin_prefetch(later_.data() + (last_ + i < later_.size() ? last_ + i : 0), 1);
    }
  }

 private:
  static constexpr std::uint32_t kFar = UINT32_MAX;  // among far_: more than four seconds later

  [[nodiscard]] std::uint32_t behind(std::uint32_t place) const { return place + 1 == later_.size() ? 0 : place + 1; }
  [[nodiscard]] std::uint32_t kept(std::int64_t later) {
    if (later < std::int64_t{kFar}) return static_cast<std::uint32_t>(later);
    if (!far_) far_ = std::make_unique<Far>();
    far_->later.push_back(later);
    return kFar;
  }
  [[nodiscard]] std::int64_t take_far() {
    const std::int64_t later = far_->later[far_->first++];
    if (far_->first == far_->later.size()) far_.reset();
    return later;
  }
  void grow() {
    std::vector<std::uint32_t> larger(later_.empty() ? 16 : later_.size() + later_.size() / 2);
    for (std::uint32_t i = 0, from = marked_first(); i < taken_ + count_; ++i, from = behind(from))
      larger[i] = later_[from];
    later_ = std::move(larger);
    first_ = taken_;
    last_ = first_ + (count_ == 0 ? 0 : count_ - 1);
  }
  /// Where the front's was at the last mark().
  [[nodiscard]] std::uint32_t marked_first() const {
    return first_ >= taken_ ? first_ - taken_ : first_ + static_cast<std::uint32_t>(later_.size()) - taken_;
  }

  std::int64_t front_ = 0;
  std::int64_t back_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t first_ = 0;  // where the front's would be
  std::uint32_t last_ = 0;
  std::uint32_t marked_ = 0;          // 1: by mark()
  std::uint32_t taken_ = 0;           // places since then, which are not used again
  std::vector<std::uint32_t> later_;  // a ring
  std::unique_ptr<Far> far_;
};

}  // namespace foreshard::sim
