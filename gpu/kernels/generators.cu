// A thread makes elements from their index alone (core/kernel/kernel.hpp's bits_of_counter), so that every rank, and a
// script in PyTorch, makes the same values, whatever the grid.
#include "gpu/kernels/generators.hpp"

#include <algorithm>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    random_normal(void* out, DType dtype, std::uint64_t count, std::uint64_t stream, std::uint64_t first, float scale) {
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x; i < count;
       i += static_cast<std::uint64_t>(gridDim.x) * kThreads)
    element::write<float>(out, static_cast<std::int64_t>(i), dtype,
                          __fmul_rn(scale, normal_of_counter(stream, first + i)));
}

__global__ void __launch_bounds__(kThreads) random_tokens(std::int64_t* out, std::uint64_t count, std::uint64_t stream,
                                                          std::uint64_t first, std::uint64_t bound) {
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x; i < count;
       i += static_cast<std::uint64_t>(gridDim.x) * kThreads)
    out[i] = static_cast<std::int64_t>(token_of_bits(bits_of_counter(stream, first + i), bound));
}

__global__ void __launch_bounds__(kThreads) counting(std::int64_t* out, std::uint64_t count) {
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x; i < count;
       i += static_cast<std::uint64_t>(gridDim.x) * kThreads)
    out[i] = static_cast<std::int64_t>(i);
}

__global__ void __launch_bounds__(kThreads)
    rotary_table(void* out, DType dtype, std::uint32_t count, std::uint32_t half, float theta, bool cosine) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const float exponent = __fdiv_rn(static_cast<float>(2 * (i % half)), static_cast<float>(2 * half));
  const float frequency = __fdiv_rn(1.0F, powf(theta, exponent));
  const float angle = __fmul_rn(static_cast<float>(i / half), frequency);
  element::write<float>(out, i, dtype, cosine ? cosf(angle) : sinf(angle));
}

}  // namespace

Result<void> run_generator(const Arguments& args) {
  const Kernel& c = args.kernel;
  const Argument out = args[0];
  if (!out.present() || !out.contiguous()) return bad_operand("a generator", 0, "is absent or has gaps");
  const std::uint64_t count = out.numel();
  if (count == 0) return {};
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(ceil_div(count, kThreads), 8192));
  if (c.op == KernelOp::rotary_cos || c.op == KernelOp::rotary_sin) {
    if (c.scalars.empty() || count > 0x7fffffffU)
      return bad_operand("rotary table", 0, "is too large, or theta is missing");
    rotary_table<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, args.stream>>>(
        out.data, out.dtype(), static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(out.last()),
        static_cast<float>(c.scalars[0]), c.op == KernelOp::rotary_cos);
    return launched("rotary table");
  }
  if (c.op == KernelOp::arange) {
    if (out.dtype() != DType::int64) return bad_operand("arange", 0, "is not int64");
    counting<<<blocks, kThreads, 0, args.stream>>>(static_cast<std::int64_t*>(out.data), count);
    return launched("arange");
  }
  const bool tokens = c.op == KernelOp::random_tokens;
  if (c.integers.size() != (tokens ? 3U : 2U)) return bad_operand("random", 0, "lacks its stream and first index");
  const auto stream = static_cast<std::uint64_t>(c.integers[0]);
  const auto first = static_cast<std::uint64_t>(c.integers[1]);
  if (tokens) {
    if (out.dtype() != DType::int64 || c.integers[2] < 1)
      return bad_operand("random_tokens", 0, "is not int64, or has no bound");
    random_tokens<<<blocks, kThreads, 0, args.stream>>>(static_cast<std::int64_t*>(out.data), count, stream, first,
                                                        static_cast<std::uint64_t>(c.integers[2]));
    return launched("random_tokens");
  }
  random_normal<<<blocks, kThreads, 0, args.stream>>>(out.data, out.dtype(), count, stream, first,
                                                      static_cast<float>(c.alpha));
  return launched("random_normal");
}

}  // namespace foreshard::gpu
