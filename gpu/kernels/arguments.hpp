// A Kernel's operands as the launchers take them: a view and the pointer to its first element.
#pragma once

#include <cstdint>
#include <span>

#include "core/kernel/kernel.hpp"
#include "gpu/kernels/status.hpp"

namespace foreshard::gpu {

struct Argument {
  const TensorView* view = nullptr;
  void* data = nullptr;  ///< null: absent

  [[nodiscard]] bool present() const { return data != nullptr; }
  [[nodiscard]] DType dtype() const { return view->dtype; }
  [[nodiscard]] std::uint64_t numel() const { return view->numel(); }
  [[nodiscard]] std::size_t rank() const { return view->shape.size(); }
  [[nodiscard]] std::uint64_t size(std::size_t d) const { return view->shape[d]; }
  [[nodiscard]] std::uint64_t last() const { return view->shape.empty() ? 1 : view->shape.back(); }
  /// Rows of the last dimension.
  [[nodiscard]] std::uint64_t rows() const { return last() == 0 ? 0 : numel() / last(); }

  /// Row-major without gaps. The stride of a dimension of size 1 says nothing.
  [[nodiscard]] bool contiguous() const {
    std::uint64_t expected = 1;
    for (std::size_t d = view->shape.size(); d-- > 0;) {
      if (view->shape[d] != 1 && view->strides[d] != expected) return false;
      expected *= view->shape[d];
    }
    return true;
  }
  [[nodiscard]] bool aligned(std::size_t bytes) const { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }
};

/// The call that a launcher serves. Does not own anything.
class Arguments {
 public:
  Arguments(const Kernel& described, std::span<const Address> addresses, cudaStream_t on)
      : kernel(described), stream(on), addresses_(addresses) {}

  [[nodiscard]] std::size_t count() const { return kernel.operands.size(); }
  /// Absent beyond the last operand.
  [[nodiscard]] Argument operator[](std::size_t i) const {
    static const TensorView kNone{0, DType::float32, true, {}, {}};
    if (i >= kernel.operands.size() || kernel.operands[i].absent) return {&kNone, nullptr};
    return {&kernel.operands[i], reinterpret_cast<void*>(addresses_[i] + kernel.operands[i].offset)};
  }

  const Kernel& kernel;
  const cudaStream_t stream;

 private:
  std::span<const Address> addresses_;
};

/// "`op` cannot run on the GPU: operand `operand` `what`".
[[nodiscard]] tl::unexpected<Error> bad_operand(std::string_view op, std::size_t operand, std::string_view what);

[[nodiscard]] constexpr bool is_float_up_to_32(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace foreshard::gpu
