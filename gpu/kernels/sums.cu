// Sums over any dimensions, in two launches: partial sums of ranges of terms, then their sum. One kernel each for a
// last dimension that stays (neighbouring threads, neighbouring outputs) and one that is summed (a block an output).
#include "gpu/kernels/sums.hpp"

#include <algorithm>

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/strides.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;

/// x's dimensions: those that stay and those that are summed, innermost first, each merged with its neighbours.
struct Params {
  const void* x = nullptr;
  DType x_dtype = DType::float32;
  float* partial = nullptr;  ///< [chunks, outputs]
  Dims kept;
  Dims summed;
  std::uint32_t outputs = 1;
  std::uint32_t terms = 1;  ///< of one sum
  std::uint32_t terms_a_chunk = 1;
};

__device__ inline std::int64_t place(const Dims& dims, std::uint32_t index) {
  std::int64_t offset = 0;
#pragma unroll
  for (int d = 0; d < kMaxDims; ++d) {
    if (d == dims.count) break;
    const std::uint32_t rest = index / dims.sizes[d];
    offset += static_cast<std::int64_t>(index - rest * dims.sizes[d]) * dims.strides[0][d];
    index = rest;
  }
  return offset;
}

/// The last dimension stays: a thread an output, neighbours read neighbours.
__global__ void __launch_bounds__(kThreads) sum_columns(const __grid_constant__ Params p) {
  const std::uint32_t output = blockIdx.x * kThreads + threadIdx.x;
  if (output >= p.outputs) return;
  const std::int64_t first = place(p.kept, output);
  const std::uint32_t begin = blockIdx.y * p.terms_a_chunk;
  const std::uint32_t end = min(begin + p.terms_a_chunk, p.terms);
  float sum = 0;
#pragma unroll 8
  for (std::uint32_t i = begin; i < end; ++i) sum += element::read<float>(p.x, first + place(p.summed, i), p.x_dtype);
  p.partial[static_cast<std::int64_t>(blockIdx.y) * p.outputs + output] = sum;
}

/// All of an output's terms lie contiguous: a block an output, in groups.
template <int kWidth>
__global__ void __launch_bounds__(kThreads) sum_contiguous_rows(const __grid_constant__ Params p) {
  __shared__ float shared[32];
  const std::uint32_t output = blockIdx.x;
  const std::int64_t first = place(p.kept, output);
  const std::uint32_t begin = blockIdx.y * p.terms_a_chunk;
  const std::uint32_t end = min(begin + p.terms_a_chunk, p.terms);
  float sum = 0;
#pragma unroll 4
  for (std::uint32_t i = begin + threadIdx.x * kWidth; i < end; i += kThreads * kWidth) {
    float v[kWidth];
    element::read_group(v, p.x, first + i, p.x_dtype);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += v[k];
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) p.partial[static_cast<std::int64_t>(blockIdx.y) * p.outputs + output] = sum;
}

/// The last dimension is summed: a block an output.
__global__ void __launch_bounds__(kThreads) sum_rows(const __grid_constant__ Params p) {
  __shared__ float shared[32];
  const std::uint32_t output = blockIdx.x;
  const std::int64_t first = place(p.kept, output);
  const std::uint32_t begin = blockIdx.y * p.terms_a_chunk;
  const std::uint32_t end = min(begin + p.terms_a_chunk, p.terms);
  float sum = 0;
#pragma unroll 8
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += kThreads)
    sum += element::read<float>(p.x, first + place(p.summed, i), p.x_dtype);
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) p.partial[static_cast<std::int64_t>(blockIdx.y) * p.outputs + output] = sum;
}

struct Output {
  void* data = nullptr;
  DType dtype = DType::float32;
  Dims dims;
  float factor = 1;
};

/// A warp an output: its lanes take chunks in turn.
__global__ void __launch_bounds__(kThreads)
    sum_chunks(const __grid_constant__ Output out, const float* partial, std::uint32_t outputs, std::uint32_t chunks) {
  const std::uint32_t output = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (output >= outputs) return;
  float sum = 0;
  for (std::uint32_t c = threadIdx.x % 32; c < chunks; c += 32)
    sum += partial[static_cast<std::int64_t>(c) * outputs + output];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) element::write<float>(out.data, place(out.dims, output), out.dtype, out.factor * sum);
}

struct Split {
  std::vector<std::uint64_t> kept;
  std::vector<std::uint64_t> summed;
  bool last_is_summed = false;
};

Result<Split> split(const Argument& out, const Argument& x) {
  Split s;
  if (out.rank() != x.rank()) return bad_operand("sum_to", 0, "has another number of dimensions");
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (out.size(d) != 1 && out.size(d) != x.size(d))
      return bad_operand("sum_to", 0, "has a size that is neither 1 nor x's");
    const bool summed = out.size(d) != x.size(d);
    s.kept.push_back(summed ? 1 : x.size(d));
    s.summed.push_back(summed ? x.size(d) : 1);
    if (x.size(d) != 1) s.last_is_summed = summed;
  }
  return s;
}

/// x's strides over a shape that holds only some of its dimensions.
Result<Dims> dims_of(const Argument& x, const std::vector<std::uint64_t>& shape) {
  TensorView view = *x.view;
  view.shape = shape;
  const Argument part{&view, x.data};
  return common_dims(shape, {&part, 1}, "sum_to");
}

std::uint64_t product(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t n = 1;
  for (const std::uint64_t size : sizes) n *= size;
  return n;
}

/// 8 or 4 where every output's terms lie contiguous on boundaries of so many elements; else 0.
int contiguous_width(const Params& p, const Argument& x) {
  if (!is_float_up_to_32(x.dtype()) || !x.aligned(16) || p.summed.count != 1 || p.summed.strides[0][0] != 1) return 0;
  const int width = width_with(8, x.dtype());
  if (p.terms % static_cast<unsigned>(width) != 0) return 0;
  for (int d = 0; d < p.kept.count; ++d)
    if (p.kept.sizes[d] != 1 && p.kept.strides[0][d] % width != 0) return 0;
  return width;
}

}  // namespace

Result<void> run_sum(const Arguments& args, Workspace& workspace) {
  const Argument out = args[0];
  const Argument x = args[1];
  if (!out.present() || !x.present()) return bad_operand("sum_to", out.present() ? 1 : 0, "is absent");
  const Result<Split> parts = split(out, x);
  FORESHARD_TRY(parts);
  const std::uint64_t outputs = product(parts->kept);
  const std::uint64_t terms = product(parts->summed);
  if (outputs == 0) return {};
  if (outputs > 0x7fffffffU || terms > 0x7fffffffU) return bad_operand("sum_to", 1, "is too large");
  const Result<Dims> kept = dims_of(x, parts->kept);
  const Result<Dims> summed = dims_of(x, parts->summed);
  const Result<Dims> places = dims_of(out, parts->kept);
  if (!kept || !summed || !places) return bad_operand("sum_to", 1, "has too many dimensions that do not merge");
  Params p{x.data,
           x.dtype(),
           nullptr,
           *kept,
           *summed,
           static_cast<std::uint32_t>(outputs),
           static_cast<std::uint32_t>(terms),
           0};
  // Enough blocks to fill the GPU a few times; a chunk of at least 16 terms a thread.
  const std::uint64_t blocks = parts->last_is_summed ? outputs : ceil_div(outputs, kThreads);
  const std::uint64_t least = parts->last_is_summed ? 16 * kThreads : 16;
  const std::uint64_t chunks =
      std::clamp<std::uint64_t>(ceil_div(terms, least), 1, std::min<std::uint64_t>(65535, ceil_div(2048, blocks)));
  const int width = parts->last_is_summed ? contiguous_width(p, x) : 0;
  p.terms_a_chunk = static_cast<std::uint32_t>(round_up(ceil_div(terms, chunks), 8));
  Result<void*> scratch = workspace.reserve(chunks * outputs * sizeof(float));
  FORESHARD_TRY(scratch);
  p.partial = static_cast<float*>(*scratch);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(chunks));
  if (width == 8)
    sum_contiguous_rows<8><<<grid, kThreads, 0, args.stream>>>(p);
  else if (width == 4)
    sum_contiguous_rows<4><<<grid, kThreads, 0, args.stream>>>(p);
  else if (parts->last_is_summed)
    sum_rows<<<grid, kThreads, 0, args.stream>>>(p);
  else
    sum_columns<<<grid, kThreads, 0, args.stream>>>(p);
  FORESHARD_TRY(launched("sum_to"));
  const Output target{out.data, out.dtype(), *places, static_cast<float>(args.kernel.alpha)};
  sum_chunks<<<static_cast<unsigned>(ceil_div(outputs * 32, kThreads)), kThreads, 0, args.stream>>>(
      target, p.partial, p.outputs, static_cast<std::uint32_t>(chunks));
  return launched("sum_to");
}

}  // namespace foreshard::gpu
