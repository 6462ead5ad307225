// Runs one kernel on the GPU and on the host (tests/contract/host_math.hpp) from the same random bytes, and
// compares every byte of every operand's memory: inside an output's view by value, everywhere else bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/kernels/executor.hpp"
#include "tests/contract/host_math.hpp"

namespace foreshard::gpu {

/// Empty, or why no test can run here.
[[nodiscard]] std::string why_no_gpu();

/// The process's executor; the test fails where none can be made.
[[nodiscard]] Executor& executor();

/// Ends the test on an error.
void require_cuda(cudaError_t status);
void require_done(const Result<void>& result);

/// Device memory for as long as it lives.
class DeviceBlock {
 public:
  explicit DeviceBlock(Bytes bytes);
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  [[nodiscard]] Address address() const { return reinterpret_cast<Address>(data_); }

 private:
  void* data_ = nullptr;
};

struct Output {
  std::size_t operand = 0;
  double slack = 1;  ///< times the tolerance of its dtype: 1 for one rounding, more where sums cancel
};

/// A kernel under test. Operands get random numbers of about normal size, whatever they are.
class Case {
 public:
  explicit Case(KernelOp op, double alpha = 1) {
    kernel.op = op;
    kernel.alpha = alpha;
  }

  /// Adds an operand on a block of its own, or on that of an earlier operand; returns its number.
  std::size_t add(TensorView view);
  std::size_t add(DType dtype, std::vector<std::uint64_t> shape) {
    return add(contiguous_view(dtype, std::move(shape)));
  }
  std::size_t add_absent();
  std::size_t add_over(std::size_t other, TensorView view);
  /// An int64 operand of numbers below `bound`.
  std::size_t add_indices(std::vector<std::uint64_t> shape, std::uint64_t bound);
  /// Replaces an operand's numbers by formula(number).
  void change(std::size_t operand, const std::function<double(double)>& formula);
  /// Numbers that can be a rstd or a second moment.
  void make_positive(std::size_t operand) {
    change(operand, [](double x) { return (x < 0 ? -x : x) + 0.25; });
  }

  /// attention_backward: fills {out, logsumexp} on the host from {q, k, v}, so that they belong together.
  void forward_on_host(const std::vector<std::size_t>& outputs, const std::vector<std::size_t>& inputs);

  /// Runs both and compares.
  void check(const std::vector<Output>& outputs);

  Kernel kernel;

 private:
  struct Block {
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] std::vector<Address> addresses(const std::vector<Address>& blocks) const;
  void compare(const Output& output, const std::vector<std::byte>& got, const std::vector<std::byte>& expected) const;

  std::vector<Block> blocks_;
  std::vector<std::size_t> block_of_;  ///< by operand
};

/// A view whose dimensions lie in memory in the order `order` (outermost first), with `gap` unused elements behind each
/// row of the innermost.
[[nodiscard]] TensorView strided_view(DType dtype, std::vector<std::uint64_t> shape,
                                      const std::vector<std::size_t>& order, std::uint64_t gap = 0);

}  // namespace foreshard::gpu
