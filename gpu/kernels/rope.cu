#include "gpu/kernels/element.cuh"
#include "gpu/kernels/rope.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;

struct Params {
  void* out = nullptr;
  const void* x = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
  DType out_dtype = DType::float32;
  DType x_dtype = DType::float32;
  std::int64_t out_strides[4] = {};  ///< batch, length, heads, head_dim
  std::int64_t x_strides[4] = {};
  std::uint32_t length = 0;
  std::uint32_t heads = 0;
  std::uint32_t half = 0;   ///< pairs of a head
  std::uint32_t count = 0;  ///< threads' worth of work
  float sign = 1;           ///< of sin: −1 backward
};

/// A thread turns kWidth neighbouring pairs: 8, 4 or 1.
template <int kWidth>
__global__ void __launch_bounds__(kThreads) rotate(const __grid_constant__ Params p) {
  std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= p.count) return;
  const std::uint32_t steps = p.half / kWidth;
  const std::uint32_t d = index % steps * kWidth;
  index /= steps;
  const std::uint32_t h = index % p.heads;
  index /= p.heads;
  const std::uint32_t s = index % p.length;
  const std::int64_t b = index / p.length;
  const std::int64_t from = b * p.x_strides[0] + s * p.x_strides[1] + h * p.x_strides[2] + d * p.x_strides[3];
  const std::int64_t to = b * p.out_strides[0] + s * p.out_strides[1] + h * p.out_strides[2] + d * p.out_strides[3];
  const std::int64_t from_right = from + p.half * p.x_strides[3];
  const std::int64_t to_right = to + p.half * p.out_strides[3];
  const std::int64_t table = static_cast<std::int64_t>(s) * p.half + d;
  if constexpr (kWidth > 1) {
    const element::Raw raw_left = element::load<kWidth>(p.x, from, p.x_dtype);
    const element::Raw raw_right = element::load<kWidth>(p.x, from_right, p.x_dtype);
    float left[kWidth], right[kWidth], cosine[kWidth], sine[kWidth], a[kWidth], z[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; k += 4) {
      const float4 c = *reinterpret_cast<const float4*>(p.cos + table + k);
      const float4 n = *reinterpret_cast<const float4*>(p.sin + table + k);
      cosine[k] = c.x, cosine[k + 1] = c.y, cosine[k + 2] = c.z, cosine[k + 3] = c.w;
      sine[k] = n.x, sine[k + 1] = n.y, sine[k + 2] = n.z, sine[k + 3] = n.w;
    }
    element::expand(left, raw_left, p.x_dtype);
    element::expand(right, raw_right, p.x_dtype);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      a[k] = left[k] * cosine[k] - right[k] * (p.sign * sine[k]);
      z[k] = right[k] * cosine[k] + left[k] * (p.sign * sine[k]);
    }
    element::write_group(p.out, to, p.out_dtype, a);
    element::write_group(p.out, to_right, p.out_dtype, z);
  } else {
    const float c = p.cos[table];
    const float n = p.sign * p.sin[table];
    const float left = element::read<float>(p.x, from, p.x_dtype);
    const float right = element::read<float>(p.x, from_right, p.x_dtype);
    element::write<float>(p.out, to, p.out_dtype, left * c - right * n);
    element::write<float>(p.out, to_right, p.out_dtype, right * c + left * n);
  }
}

bool allows(const Argument& a, unsigned width) {
  if (!a.aligned(16) || a.view->strides[3] != 1) return false;
  for (std::size_t d = 0; d < 3; ++d)
    if (a.size(d) != 1 && a.view->strides[d] % width != 0) return false;
  return true;
}

}  // namespace

Result<void> run_rope(const Arguments& args) {
  const bool backward = args.c.op == KernelOp::rope_backward;
  const char* name = backward ? "rope_backward" : "rope";
  const Argument out = args[0];
  const Argument x = args[1];
  for (std::size_t i = 0; i < 2; ++i)
    if (!args[i].present() || args[i].rank() != 4 || args[i].size(3) % 2 != 0 || !is_float_up_to_32(args[i].dtype()))
      return bad_operand(name, i, "is no float tensor of [batch, length, heads, head_dim]");
  for (std::size_t i = 2; i < 4; ++i)
    if (!args[i].present() || args[i].dtype() != DType::float32 || !args[i].contiguous() ||
        args[i].numel() < x.size(1) * x.size(3) / 2)
      return bad_operand(name, i, "is no contiguous float32 table");
  if (out.view->shape != x.view->shape) return bad_operand(name, 0, "has another shape than x");
  Params p;
  p.out = out.data;
  p.x = x.data;
  p.cos = static_cast<const float*>(args[2].data);
  p.sin = static_cast<const float*>(args[3].data);
  p.out_dtype = out.dtype();
  p.x_dtype = x.dtype();
  for (std::size_t d = 0; d < 4; ++d) {
    p.out_strides[d] = static_cast<std::int64_t>(out.view->strides[d]);
    p.x_strides[d] = static_cast<std::int64_t>(x.view->strides[d]);
  }
  p.length = static_cast<std::uint32_t>(x.size(1));
  p.heads = static_cast<std::uint32_t>(x.size(2));
  p.half = static_cast<std::uint32_t>(x.size(3) / 2);
  p.sign = backward ? -1.0F : 1.0F;
  auto width = static_cast<unsigned>(width_with(width_with(8, out.dtype()), x.dtype()));
  if (p.half % width != 0 || !allows(out, width) || !allows(x, width) || !args[2].aligned(16) || !args[3].aligned(16))
    width = 1;
  const std::uint64_t count = x.numel() / 2 / width;
  if (count == 0) return {};
  if (count > 0x7fffffffU) return bad_operand(name, 1, "is too large");
  p.count = static_cast<std::uint32_t>(count);
  const auto blocks = static_cast<unsigned>(ceil_div(count, kThreads));
  if (width == 8)
    rotate<8><<<blocks, kThreads, 0, args.stream>>>(p);
  else if (width == 4)
    rotate<4><<<blocks, kThreads, 0, args.stream>>>(p);
  else
    rotate<1><<<blocks, kThreads, 0, args.stream>>>(p);
  return launched(name);
}

namespace {

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
  const Kernel& c = args.c;
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
