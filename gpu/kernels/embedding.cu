// Forward copies rows. Backward clears dweight, then the first place of each index among the indices sums the gradients
// of all its places, in their order: O(indices²) comparisons in L2, but no sort, no temporary and no atomics.
#include "gpu/kernels/embedding.hpp"

#include <algorithm>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kLongestBlock = 512;  ///< a block takes a row, or as much of it as it has threads

struct Params {
  void* out = nullptr;
  const void* in = nullptr;
  DType out_dtype = DType::float32;
  DType in_dtype = DType::float32;
  const std::int64_t* indices = nullptr;
  std::uint32_t count = 0;  ///< indices
  std::uint32_t dim = 0;
};

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kLongestBlock) gather_rows(const __grid_constant__ Params p) {
  const std::uint32_t column = (blockIdx.y * blockDim.x + threadIdx.x) * kWidth;
  if (column >= p.dim) return;
  float v[kWidth];
  element::read_some<kWidth, kVector>(v, p.in, p.indices[blockIdx.x] * p.dim + column, p.dim - column, p.in_dtype);
  element::write_some<kWidth, kVector>(p.out, static_cast<std::int64_t>(blockIdx.x) * p.dim + column, p.dim - column,
                                       p.out_dtype, v);
}

/// A block a place among the indices. The first place of a row sums all of the row's gradients, in order; the others
/// return. Every block reads all indices, which lie in L2: 8 bytes each against dim elements.
template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kLongestBlock) scatter_rows(const __grid_constant__ Params p) {
  __shared__ std::uint32_t matches[kLongestBlock / 32];
  const std::uint32_t place = blockIdx.x;
  const std::int64_t row = p.indices[place];
  bool earlier = false;
  for (std::uint32_t i = threadIdx.x; i < place; i += blockDim.x) earlier = earlier || p.indices[i] == row;
  if (__syncthreads_or(earlier)) return;
  const std::uint32_t column = (blockIdx.y * blockDim.x + threadIdx.x) * kWidth;
  float sum[kWidth] = {};
  for (std::uint32_t first = place; first < p.count; first += blockDim.x) {
    const std::uint32_t i = first + threadIdx.x;
    const bool match = i < p.count && p.indices[i] == row;
    const unsigned mask = __ballot_sync(0xffffffffU, match);
    if (threadIdx.x % 32 == 0) matches[threadIdx.x / 32] = mask;
    if (__syncthreads_or(match) != 0 && column < p.dim) {
      for (std::uint32_t warp = 0; warp < blockDim.x / 32; ++warp)
        for (unsigned left = matches[warp]; left != 0; left &= left - 1) {
          const std::int64_t source = first + warp * 32 + static_cast<std::uint32_t>(__ffs(static_cast<int>(left)) - 1);
          float v[kWidth];
          element::read_some<kWidth, kVector>(v, p.in, source * p.dim + column, p.dim - column, p.in_dtype);
#pragma unroll
          for (int e = 0; e < kWidth; ++e) sum[e] += v[e];
        }
    }
    __syncthreads();
  }
  if (column < p.dim)
    element::write_some<kWidth, kVector>(p.out, row * p.dim + column, p.dim - column, p.out_dtype, sum);
}

template <int kWidth, bool kVector>
void launch(const Params& p, bool backward, dim3 grid, unsigned threads, cudaStream_t stream) {
  if (backward)
    scatter_rows<kWidth, kVector><<<grid, threads, 0, stream>>>(p);
  else
    gather_rows<kWidth, kVector><<<grid, threads, 0, stream>>>(p);
}

}  // namespace

Result<void> run_embedding(const Arguments& args) {
  const bool backward = args.kernel.op == KernelOp::embedding_backward;
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
    FORESHARD_TRY(cuda_status(cudaMemsetAsync(out.data, 0, out.numel() * itemsize(out.dtype()), args.stream),
                                      "cudaMemsetAsync of an embedding's gradient"));
  if (count == 0 || dim == 0) return {};
  const Params p{out.data,
                 in.data,
                 out.dtype(),
                 in.dtype(),
                 static_cast<const std::int64_t*>(indices.data),
                 static_cast<std::uint32_t>(count),
                 static_cast<std::uint32_t>(dim)};
  int width = width_with(width_with(8, out.dtype()), in.dtype());
  const bool vector = dim % static_cast<unsigned>(width) == 0 && out.aligned(16) && in.aligned(16);
  if (!vector) width = 4;
  const auto threads = static_cast<unsigned>(
      std::clamp<std::uint64_t>(round_up(ceil_div(dim, static_cast<unsigned>(width)), 32), 32, kLongestBlock));
  const dim3 grid(p.count, static_cast<unsigned>(ceil_div(dim, threads * static_cast<unsigned>(width))));
  if (!vector)
    launch<4, false>(p, backward, grid, threads, args.stream);
  else if (width == 8)
    launch<8, true>(p, backward, grid, threads, args.stream);
  else
    launch<4, true>(p, backward, grid, threads, args.stream);
  return launched(name);
}

}  // namespace foreshard::gpu
