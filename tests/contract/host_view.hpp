// A TensorView on host memory, addressed by row-major element number: what host_math's loops are written with.
#pragma once

#include <string>
#include <vector>

#include "core/base/check.hpp"
#include "tests/contract/host_math.hpp"

namespace foreshard {

using Shape64 = std::vector<std::uint64_t>;

/// Does not own the memory. Cheap to copy; indices are row-major over `shape`.
class HostView {
 public:
  HostView(const TensorView& view, Address block)
      : address_(view.absent ? 0 : block + view.offset),
        dtype_(view.dtype),
        shape_(view.shape),
        strides_(view.strides) {
    FORESHARD_CHECK(view.absent || block != 0, "an operand has no address");
    FORESHARD_CHECK(shape_.size() == strides_.size(), "a view has as many strides as sizes");
  }

  [[nodiscard]] bool present() const { return address_ != 0; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape64& shape() const { return shape_; }
  [[nodiscard]] std::uint64_t last() const { return shape_.back(); }
  [[nodiscard]] std::uint64_t numel() const {
    std::uint64_t n = 1;
    for (const std::uint64_t size : shape_) n *= size;
    return n;
  }
  [[nodiscard]] std::uint64_t rows() const { return last() == 0 ? 0 : numel() / last(); }

  [[nodiscard]] double operator[](std::uint64_t index) const { return load_element(place(index), dtype_); }
  void set(std::uint64_t index, double value) const { store_element(place(index), dtype_, value); }
  [[nodiscard]] double at(std::initializer_list<std::uint64_t> index) const {
    return load_element(place_at(index), dtype_);
  }
  void set_at(std::initializer_list<std::uint64_t> index, double value) const {
    store_element(place_at(index), dtype_, value);
  }
  [[nodiscard]] std::int64_t integer(std::uint64_t index) const { return static_cast<std::int64_t>((*this)[index]); }

  /// The same memory read as a tensor of `shape`: sizes of 1 and missing leading dimensions repeat.
  [[nodiscard]] HostView expanded(const Shape64& shape) const {
    HostView out = *this;
    out.shape_ = shape;
    out.strides_.assign(shape.size(), 0);
    FORESHARD_CHECK(shape_.size() <= shape.size(), "an operand has more dimensions than the output");
    const std::size_t missing = shape.size() - shape_.size();
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      FORESHARD_CHECK(shape_[d] == 1 || shape_[d] == shape[missing + d], "an operand does not broadcast");
      out.strides_[missing + d] = shape_[d] == 1 ? 0 : strides_[d];
    }
    return out;
  }

 private:
  [[nodiscard]] Address place(std::uint64_t index) const {
    std::uint64_t offset = 0;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      offset += index % shape_[d] * strides_[d];
      index /= shape_[d];
    }
    return address_ + offset * itemsize(dtype_);
  }
  /// The first `index.size()` dimensions; what is left out counts as 0.
  [[nodiscard]] Address place_at(std::initializer_list<std::uint64_t> index) const {
    std::uint64_t offset = 0;
    std::size_t d = 0;
    for (const std::uint64_t i : index) offset += i * strides_.at(d++);
    return address_ + offset * itemsize(dtype_);
  }

  Address address_ = 0;
  DType dtype_;
  Shape64 shape_;
  Shape64 strides_;
};

}  // namespace foreshard
