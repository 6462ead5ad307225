#include "gpu/kernels/element.cuh"
#include "gpu/kernels/reductions.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 128;
constexpr std::uint32_t kColumns = kThreads * kGroup;  ///< of a block

struct Params {
  void* out = nullptr;
  const void* in = nullptr;
  DType out_dtype = DType::float32;
  DType in_dtype = DType::float32;
  const std::int64_t* indices = nullptr;
  std::uint32_t count = 0;  ///< indices
  std::uint32_t dim = 0;
};

template <bool kVector>
__global__ void __launch_bounds__(kThreads) gather_rows(const __grid_constant__ Params p) {
  const std::uint32_t column = blockIdx.y * kColumns + threadIdx.x * kGroup;
  if (column >= p.dim) return;
  float v[kGroup];
  element::read_some<kVector>(v, p.in, p.indices[blockIdx.x] * p.dim + column, p.dim - column, p.in_dtype);
  element::write_some<kVector>(p.out, static_cast<std::int64_t>(blockIdx.x) * p.dim + column, p.dim - column,
                               p.out_dtype, v);
}

/// A block a place among the indices. The first place of a row sums all of the row's gradients, in order; the others
/// return. Every block reads all indices, which lie in L2: 8 bytes each against dim elements.
template <bool kVector>
__global__ void __launch_bounds__(kThreads) scatter_rows(const __grid_constant__ Params p) {
  __shared__ std::uint32_t matches[kThreads];
  const std::uint32_t place = blockIdx.x;
  const std::int64_t row = p.indices[place];
  bool earlier = false;
  for (std::uint32_t i = threadIdx.x; i < place; i += kThreads) earlier = earlier || p.indices[i] == row;
  if (__syncthreads_or(earlier)) return;
  const std::uint32_t column = blockIdx.y * kColumns + threadIdx.x * kGroup;
  float sum[kGroup] = {};
  for (std::uint32_t first = place; first < p.count; first += kThreads) {
    const std::uint32_t i = first + threadIdx.x;
    const bool match = i < p.count && p.indices[i] == row;
    if (__syncthreads_count(match) == 0) continue;
    matches[threadIdx.x] = match ? 1 : 0;
    __syncthreads();
    if (column < p.dim) {
      for (std::uint32_t k = 0; k < kThreads && first + k < p.count; ++k) {
        if (matches[k] == 0) continue;
        float v[kGroup];
        element::read_some<kVector>(v, p.in, static_cast<std::int64_t>(first + k) * p.dim + column, p.dim - column,
                                    p.in_dtype);
#pragma unroll
        for (int e = 0; e < kGroup; ++e) sum[e] += v[e];
      }
    }
    __syncthreads();
  }
  if (column < p.dim) element::write_some<kVector>(p.out, row * p.dim + column, p.dim - column, p.out_dtype, sum);
}

}  // namespace

Result<void> run_embedding(const Arguments& args) {
  const bool backward = args.c.function == Function::embedding_backward;
  const char* name = backward ? "embedding_backward" : "embedding";
  const Argument out = args[0];
  const Argument in = args[1];
  const Argument indices = args[2];
  for (std::size_t i = 0; i < 3; ++i)
    if (!args[i].present() || !args[i].contiguous()) return bad_operand(name, i, "is absent or has gaps");
  if (indices.dtype() != DType::int64) return bad_operand(name, 2, "is not int64");
  if (!is_float_up_to_32(out.dtype()) || !is_float_up_to_32(in.dtype()))
    return bad_operand(name, 0, "is no float32, bfloat16 or float16");
  const std::uint64_t count = indices.numel();
  const std::uint64_t dim = out.last();
  if (count > 0x7fffffffU || dim > 0x7fffffffU) return bad_operand(name, 2, "is too large");
  if (backward)
    FORESHARD_KERNELS_TRY(cuda_status(cudaMemsetAsync(out.data, 0, out.numel() * itemsize(out.dtype()), args.stream),
                                      "cudaMemsetAsync of an embedding's gradient"));
  if (count == 0 || dim == 0) return {};
  const Params p{out.data,
                 in.data,
                 out.dtype(),
                 in.dtype(),
                 static_cast<const std::int64_t*>(indices.data),
                 static_cast<std::uint32_t>(count),
                 static_cast<std::uint32_t>(dim)};
  const dim3 grid(p.count, static_cast<unsigned>(ceil_div(dim, kColumns)));
  const bool vector = dim % kGroup == 0 && out.aligned(16) && in.aligned(16);
  if (backward && vector)
    scatter_rows<true><<<grid, kThreads, 0, args.stream>>>(p);
  else if (backward)
    scatter_rows<false><<<grid, kThreads, 0, args.stream>>>(p);
  else if (vector)
    gather_rows<true><<<grid, kThreads, 0, args.stream>>>(p);
  else
    gather_rows<false><<<grid, kThreads, 0, args.stream>>>(p);
  return launched(name);
}

}  // namespace foreshard::gpu
