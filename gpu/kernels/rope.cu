// Rotary embedding: out = x·cos + rotate_half(x)·sin, as Hugging Face and Llama write it, backward with −sin. A thread
// turns 8, 4 or 1 neighbouring pairs (d, d + half) in float32 and rounds once; nothing is shared between threads.
#include "gpu/kernels/rope.hpp"

#include "gpu/kernels/element.cuh"

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
  const bool backward = args.kernel.op == KernelOp::rope_backward;
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

}  // namespace foreshard::gpu
