// Softmax over rows, its backward, and the causal mask: a block a row. As aten::_softmax and aten::_safe_softmax: the
// largest value is taken off first, and a row of −∞ becomes zeros.
#include "gpu/kernels/softmax.hpp"

#include <algorithm>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kWidth = 4;
constexpr unsigned kLongestBlock = 1024;

struct Row {
  void* data = nullptr;
  DType dtype = DType::float32;
};

/// A group of this block's row.
template <bool kVector>
__device__ inline void read(float (&v)[kWidth], const Row& x, std::uint32_t column, std::uint32_t columns,
                            float otherwise) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * columns + column;
  element::read_some<kWidth, kVector>(v, x.data, at, columns - column, x.dtype, otherwise);
}
template <bool kVector>
__device__ inline void write(const Row& x, std::uint32_t column, std::uint32_t columns, const float (&v)[kWidth]) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * columns + column;
  element::write_some<kWidth, kVector>(x.data, at, columns - column, x.dtype, v);
}

/// One block a row, which the second and third time comes from its cache. Sums are of exp(x − largest). A NaN counts as
/// the largest, and makes its whole row NaN; a row of −∞ alone becomes 0 (_safe_softmax).
template <bool kVector>
__global__ void __launch_bounds__(kLongestBlock) softmax(Row out, Row x, std::uint32_t columns) {
  __shared__ float shared[64];
  const std::uint32_t step = blockDim.x * kWidth;
  float v[kWidth];
  float largest = -INFINITY;
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += step) {
    read<kVector>(v, x, column, columns, -INFINITY);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) largest = isnan(v[k]) ? INFINITY : fmaxf(largest, v[k]);
  }
  largest = block_max(largest, shared);
  const bool none = largest == -INFINITY;
  float sum = 0;
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns && !none; column += step) {
    read<kVector>(v, x, column, columns, -INFINITY);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += expf(v[k] - largest);
  }
  sum = block_sum(sum, shared + 32);
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += step) {
    read<kVector>(v, x, column, columns, -INFINITY);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = none ? 0.0F : expf(v[k] - largest) / sum;
    write<kVector>(out, column, columns, v);
  }
}

template <bool kVector>
__global__ void __launch_bounds__(kLongestBlock) softmax_backward(Row dx, Row dy, Row y, std::uint32_t columns) {
  __shared__ float shared[32];
  const std::uint32_t step = blockDim.x * kWidth;
  float g[kWidth];
  float p[kWidth];
  float sum = 0;
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += step) {
    read<kVector>(g, dy, column, columns, 0);
    read<kVector>(p, y, column, columns, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += g[k] * p[k];
  }
  sum = block_sum(sum, shared);
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += step) {
    read<kVector>(g, dy, column, columns, 0);
    read<kVector>(p, y, column, columns, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) g[k] = p[k] * (g[k] - sum);
    write<kVector>(dx, column, columns, g);
  }
}

__global__ void __launch_bounds__(256) causal_mask(Row out, std::uint32_t keys) {
  const std::uint32_t key = blockIdx.y * 256 + threadIdx.x;
  if (key >= keys) return;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * keys + key;
  element::write<float>(out.data, at, out.dtype, key <= blockIdx.x ? 0.0F : -INFINITY);
}

Row row_of(const Argument& a) {
  return {a.data, a.dtype()};
}

Result<void> check(const Arguments& args, std::size_t operands, const char* name) {
  for (std::size_t i = 0; i < operands; ++i) {
    const Argument a = args[i];
    if (!a.present() || !a.contiguous() || !is_float_up_to_32(a.dtype()) || a.numel() != args[0].numel())
      return bad_operand(name, i, "is no contiguous tensor of the output's size, of float32, bfloat16 or float16");
    if (a.last() > 0x7fffffffU || a.rows() > 0x7fffffffU) return bad_operand(name, i, "is too large");
  }
  return {};
}

Result<void> run_rows(const Arguments& args) {
  const bool backward = args.kernel.op == KernelOp::softmax_backward;
  const char* name = backward ? "softmax_backward" : "softmax";
  const std::size_t operands = backward ? 3 : 2;
  FORESHARD_TRY(check(args, operands, name));
  const auto columns = static_cast<std::uint32_t>(args[0].last());
  const auto rows = static_cast<unsigned>(args[0].rows());
  if (rows == 0) return {};
  bool vector = columns % kWidth == 0;
  for (std::size_t i = 0; i < operands; ++i) vector = vector && args[i].aligned(kWidth * itemsize(args[i].dtype()));
  const std::uint64_t wanted = round_up(ceil_div(columns, std::uint64_t{4 * kWidth}), 32);  // four groups a thread
  const auto threads = static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 32, kLongestBlock));
  const Row a = row_of(args[0]);
  const Row b = row_of(args[1]);
  const Row c = row_of(args[2]);
  if (backward && vector)
    softmax_backward<true><<<rows, threads, 0, args.stream>>>(a, b, c, columns);
  else if (backward)
    softmax_backward<false><<<rows, threads, 0, args.stream>>>(a, b, c, columns);
  else if (vector)
    softmax<true><<<rows, threads, 0, args.stream>>>(a, b, columns);
  else
    softmax<false><<<rows, threads, 0, args.stream>>>(a, b, columns);
  return launched(name);
}

}  // namespace

Result<void> run_softmax(const Arguments& args) {
  if (args.kernel.op != KernelOp::causal_mask) return run_rows(args);
  FORESHARD_TRY(check(args, 1, "causal_mask"));
  if (args[0].rank() != 2) return bad_operand("causal_mask", 0, "is no matrix");
  const auto keys = static_cast<std::uint32_t>(args[0].last());
  const std::uint64_t tiles = ceil_div(keys, std::uint64_t{256});
  if (tiles > 65535) return bad_operand("causal_mask", 0, "is too large");
  if (args[0].numel() == 0) return {};
  const dim3 grid(static_cast<unsigned>(args[0].rows()), static_cast<unsigned>(tiles));
  causal_mask<<<grid, 256, 0, args.stream>>>(row_of(args[0]), keys);
  return launched("causal_mask");
}

}  // namespace foreshard::gpu
