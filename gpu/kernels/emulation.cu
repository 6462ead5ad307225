// Synthetic kernels for launches whose Kernel is not known: a GEMM or attention of the same shape, a copy of as many
// bytes, or a kernel that waits on %globaltimer. They take the time that the real ones would; what they compute is
// thrown away.
#include "gpu/kernels/emulation.hpp"

#include <algorithm>
#include <vector>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;

/// Random bfloat16 numbers of about normal size, which are harmless float32 and float16 numbers too.
__global__ void __launch_bounds__(kThreads) fill_random(std::uint16_t* out, std::uint64_t count) {
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x; i < count;
       i += static_cast<std::uint64_t>(gridDim.x) * kThreads)
    element::write<float>(out, static_cast<std::int64_t>(i), DType::bfloat16, normal_of_counter(1, i));
}

/// Reads `groups` groups of 16 bytes and writes as many, walking over two halves of `span` groups each.
__global__ void __launch_bounds__(kThreads) move_bytes(uint4* scratch, std::uint64_t groups, std::uint64_t span) {
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x; i < groups;
       i += static_cast<std::uint64_t>(gridDim.x) * kThreads)
    scratch[span + i % span] = scratch[i % span];
}

__global__ void wait_nanoseconds(std::uint64_t length) {
  std::uint64_t begin = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(200);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < length);
}

TensorView contiguous(DType dtype, std::vector<std::uint64_t> shape) {
  TensorView view{0, dtype, false, std::move(shape), {}};
  view.strides.assign(view.shape.size(), 1);
  for (std::size_t d = view.shape.size(); d-- > 1;) view.strides[d - 1] = view.strides[d] * view.shape[d];
  return view;
}

DType float_of(DType dtype) {
  return is_float_up_to_32(dtype) || dtype == DType::float64 ? dtype : DType::float32;
}

/// Two matrices of random bytes in float8, and their product as kernel_cost.hpp saw it.
Kernel float8_product(const KernelMath& math) {
  Kernel c;
  c.op = KernelOp::scaled_mm;
  c.integers = {math.dtype == DType::float8_e4m3fn ? 1 : 0};
  TensorView b = contiguous(DType::float8_e4m3fn, {math.k, math.n});
  b.strides = {1, math.k};
  const TensorView scale = contiguous(DType::float32, {});
  c.operands = {contiguous(DType::bfloat16, {math.m, math.n}), contiguous(math.dtype, {math.m, math.k}), b, scale,
                scale};
  return c;
}

Kernel product_of(const KernelMath& math) {
  if (is_float8(math.dtype)) return float8_product(math);
  Kernel c;
  c.op = KernelOp::gemm;
  c.alpha = 0.01;  // keeps the numbers finite when a result is multiplied again
  const DType dtype = float_of(math.dtype);
  const std::uint64_t batch = std::max<std::uint32_t>(math.batch, 1);
  const auto shape = [&](std::uint64_t rows, std::uint64_t columns) {
    return batch == 1 ? std::vector<std::uint64_t>{rows, columns} : std::vector<std::uint64_t>{batch, rows, columns};
  };
  c.operands = {contiguous(dtype, shape(math.m, math.n)), contiguous(dtype, shape(math.m, math.k)),
                contiguous(dtype, shape(math.k, math.n))};
  return c;
}

/// Places the operands behind each other, on boundaries of 256 bytes.
std::vector<Address> places(const Kernel& c, Bytes& total) {
  std::vector<Address> offsets;
  total = 0;
  for (const TensorView& view : c.operands) {
    offsets.push_back(total);
    total += round_up(view.numel() * itemsize(view.dtype), 256);
  }
  return offsets;
}

}  // namespace

Result<std::byte*> Emulation::reserve(Bytes bytes, cudaStream_t stream) {
  const Bytes before = scratch_.size();
  Result<void*> data = scratch_.reserve(std::max(bytes, wanted_));
  FORESHARD_TRY(data);
  if (scratch_.size() != before) {
    fill_random<<<1024, kThreads, 0, stream>>>(static_cast<std::uint16_t*>(*data), scratch_.size() / 2);
    FORESHARD_TRY(launched("filling the scratch memory"));
  }
  return static_cast<std::byte*>(*data);
}

Result<void> Emulation::product(const KernelMath& math, cudaStream_t stream, Gemm& gemm, Workspace& workspace) {
  const Kernel c = product_of(math);
  Bytes total = 0;
  std::vector<Address> addresses = places(c, total);
  Result<std::byte*> memory = reserve(total, stream);
  FORESHARD_TRY(memory);
  for (Address& address : addresses) address += reinterpret_cast<Address>(*memory);
  return gemm.run(Arguments(c, addresses, stream), workspace);
}

Result<void> Emulation::attend(const KernelMath& math, cudaStream_t stream, Attention& attention,
                               Workspace& workspace) {
  const bool backward = math.kind == KernelMath::Kind::attention_backward;
  Kernel c;
  c.op = backward ? KernelOp::attention_backward : KernelOp::attention;
  c.causal = math.causal;
  c.alpha = 0.1;
  const DType dtype = float_of(math.dtype);
  const TensorView q = contiguous(dtype, {1, math.batch, math.m, math.k});
  const TensorView k = contiguous(dtype, {1, math.batch, math.n, math.k});
  const TensorView rows = contiguous(DType::float32, {1, math.batch, math.m});
  if (backward)
    c.operands = {q, k, k, q, q, k, k, q, rows};
  else
    c.operands = {q, rows, q, k, k};
  Bytes total = 0;
  std::vector<Address> addresses = places(c, total);
  Result<std::byte*> memory = reserve(total, stream);
  FORESHARD_TRY(memory);
  for (Address& address : addresses) address += reinterpret_cast<Address>(*memory);
  return attention.run(Arguments(c, addresses, stream), workspace);
}

Result<void> Emulation::run(const KernelWork& work, cudaStream_t stream, Gemm& gemm, Attention& attention,
                            Workspace& workspace) {
  const KernelMath& math = work.math;
  if (math.kind == KernelMath::Kind::gemm && math.m > 0 && math.n > 0 && math.k > 0)
    return product(math, stream, gemm, workspace);
  const bool attends =
      math.kind == KernelMath::Kind::attention_forward || math.kind == KernelMath::Kind::attention_backward;
  if (attends && math.m > 0 && math.n > 0 && math.k > 0 && math.k <= 1024)
    return attend(math, stream, attention, workspace);
  if (work.bytes == 0) {
    if (work.work.count <= 0) return {};
    wait_nanoseconds<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(work.work.count));
    return launched("a stand-in that waits");
  }
  Result<std::byte*> memory = reserve(0, stream);
  FORESHARD_TRY(memory);
  const std::uint64_t groups = ceil_div(work.bytes, 2 * sizeof(uint4));
  const std::uint64_t span = scratch_.size() / 2 / sizeof(uint4);
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(ceil_div(groups, kThreads), 1U << 20U));
  move_bytes<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<uint4*>(*memory), groups, span);
  return launched("a stand-in that moves bytes");
}

}  // namespace foreshard::gpu
