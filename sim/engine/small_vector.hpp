// A vector that holds its first elements inside its owner: what an engine needs lies together, so that a job's ranks,
// which take turns, come into the cache in a few lines each.
//
// Who: sim/engine/engine.hpp. Has no copy constructor; elements are not checked against its size.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

namespace foreshard::sim {

template <class T, std::size_t kFew>
class SmallVector {
 public:
  SmallVector() { data_ = few_.data(); }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector& other) {
    if (this == &other) return *this;
    resize(other.size_);
    std::copy(other.begin(), other.end(), begin());
    return *this;
  }
  ~SmallVector() = default;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] T* begin() { return data_; }
  [[nodiscard]] T* end() { return data_ + size_; }
  [[nodiscard]] const T* begin() const { return data_; }
  [[nodiscard]] const T* end() const { return data_ + size_; }

  /// Behind the last of its elements that may lie inside its owner.
  [[nodiscard]] const void* inside_end() const { return few_.data() + std::min(size_, kFew); }

  /// Elements that it had before and has again are as they were; numbers among new ones are anything.
  void resize(std::size_t size) {
    if (size > std::max(kFew, more_.size())) {
      if (more_.empty()) more_.assign(std::make_move_iterator(few_.begin()), std::make_move_iterator(few_.end()));
      more_.resize(std::max(size, 2 * more_.size()));
      data_ = more_.data();
    }
    size_ = size;
  }
  void push_back(const T& value) {
    resize(size_ + 1);
    data_[size_ - 1] = value;
  }
  void clear() { size_ = 0; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::vector<T> more_;  // all of them, once they are more than a few
  std::array<T, kFew> few_;
};

}  // namespace foreshard::sim
