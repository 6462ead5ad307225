// Layer norm and RMS norm (torch.nn.functional.layer_norm, rms_norm), forward and backward, also fused with the
// residual's addition. Statistics and sums are float32: one pass with shifted squares, then a reduction of the block.
// The weights' gradients are two launches, so that their order does not depend on which block comes first.
#include "gpu/kernels/norms.hpp"

#include <algorithm>
#include <type_traits>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

__device__ inline float rounded(float value, DType dtype) {
  if (dtype == DType::bfloat16) return __bfloat162float(__float2bfloat16_rn(value));
  if (dtype == DType::float16) return __half2float(__float2half_rn(value));
  return value;
}

// ---- One block a row. A thread keeps the first groups of its row in registers, as they lie in memory; what is longer
// is read again. Blocks are as short as that allows: more rows are in flight on an SM, and their loads hide one
// another's sums. All of a thread's loads are issued before the first is used or anything is written.

constexpr int kLongestBlock = 512;
constexpr int kGroups = 4;  ///< kept, of 16 bytes of each tensor

struct Row {
  const void* data = nullptr;  ///< null: absent
  DType dtype = DType::float32;
};

struct ForwardParams {
  void* y = nullptr;
  DType y_dtype = DType::float32;
  void* sum = nullptr;  ///< x + residual, which is normed in x's place; null: x itself
  DType sum_dtype = DType::float32;
  float* mean = nullptr;  ///< null: RMS norm
  float* rstd = nullptr;
  Row x, residual, weight, bias;
  std::uint32_t columns = 0;
  float eps = 0;
};

template <int kWidth, bool kVector>
struct NormForward {
  const ForwardParams& p;
  std::int64_t row;

  __device__ DType held() const { return element::held<kVector>(p.sum != nullptr ? p.sum_dtype : p.x.dtype); }

  __device__ element::Raw load(const Row& from, std::uint32_t column) const {
    return element::load_some<kWidth, kVector>(from.data, row * p.columns + column, p.columns - column, from.dtype);
  }

  /// The thread's first groups of the normed tensor, as held.
  __device__ void load_kept(element::Raw (&kept)[kGroups], std::uint32_t own, std::uint32_t step) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (g * step + own < p.columns) kept[g] = load(p.x, g * step + own);
    if (p.sum == nullptr) return;
    element::Raw residual[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (g * step + own < p.columns) residual[g] = load(p.residual, g * step + own);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (g * step + own < p.columns) kept[g] = added(kept[g], residual[g], g * step + own, true);
  }

  /// A group of the normed tensor behind those; its sum is written on `first_time`.
  __device__ element::Raw input(std::uint32_t column, bool first_time) const {
    const element::Raw x = load(p.x, column);
    return p.sum == nullptr ? x : added(x, load(p.residual, column), column, first_time);
  }

  /// x + residual rounded to the sum's dtype, as held.
  __device__ element::Raw added(const element::Raw& x, const element::Raw& residual, std::uint32_t column,
                                bool writes) const {
    const std::int64_t at = row * p.columns + column;
    const std::uint32_t left = p.columns - column;
    float a[kWidth];
    float b[kWidth];
    element::expand(a, x, element::held<kVector>(p.x.dtype));
    element::expand(b, residual, element::held<kVector>(p.residual.dtype));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) a[k] += b[k];
    if constexpr (kVector) {
      const element::Raw sum = element::collapse(a, p.sum_dtype);
      if (writes) element::store<kWidth>(p.sum, at, p.sum_dtype, sum);
      return sum;
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) a[k] = rounded(a[k], p.sum_dtype);
      if (writes) element::write_some<kWidth, kVector>(p.sum, at, left, p.sum_dtype, a);
      return element::collapse(a, DType::float32);
    }
  }

  /// Adds a group's differences from `origin` and their squares.
  __device__ void count(float2& sums, const element::Raw& raw, std::uint32_t column, float origin) const {
    float v[kWidth];
    element::expand(v, raw, held());
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float d = kVector || k < p.columns - column ? v[k] - origin : 0.0F;
      sums.x += d;
      sums.y += d * d;
    }
  }

  __device__ void finish(const element::Raw& raw, std::uint32_t column, float mean, float rstd) const {
    const std::uint32_t left = p.columns - column;
    float v[kWidth];
    element::expand(v, raw, held());
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = (v[k] - mean) * rstd;
    float other[kWidth];
    if (p.weight.data != nullptr) {
      element::read_some<kWidth, kVector>(other, p.weight.data, column, left, p.weight.dtype);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v[k] *= other[k];
    }
    if (p.bias.data != nullptr) {
      element::read_some<kWidth, kVector>(other, p.bias.data, column, left, p.bias.dtype);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v[k] += other[k];
    }
    element::write_some<kWidth, kVector>(p.y, row * p.columns + column, left, p.y_dtype, v);
  }
};

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kLongestBlock, 2) norm_forward(const __grid_constant__ ForwardParams p) {
  __shared__ float2 shared[32];
  const NormForward<kWidth, kVector> norm{p, blockIdx.x};
  const std::uint32_t step = blockDim.x * kWidth;
  const std::uint32_t own = threadIdx.x * kWidth;
  // The row's first value as the origin keeps the one-pass variance exact for rows far from zero.
  const float origin = p.mean != nullptr ? element::read<float>(p.x.data, norm.row * p.columns, p.x.dtype) : 0.0F;
  element::Raw kept[kGroups];
  norm.load_kept(kept, own, step);
  float2 sums = make_float2(0, 0);
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    if (g * step + own < p.columns) norm.count(sums, kept[g], g * step + own, origin);
  for (std::uint32_t column = kGroups * step + own; column < p.columns; column += step)
    norm.count(sums, norm.input(column, true), column, origin);
  sums = block_sum(sums, shared);
  const float n = static_cast<float>(p.columns);
  const float shifted = p.mean != nullptr ? sums.x / n : 0.0F;
  const float mean = origin + shifted;
  const float rstd = rsqrtf(fmaxf(sums.y / n - shifted * shifted, 0.0F) + p.eps);
  if (threadIdx.x == 0) {
    if (p.mean != nullptr) p.mean[norm.row] = mean;
    p.rstd[norm.row] = rstd;
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    if (g * step + own < p.columns) norm.finish(kept[g], g * step + own, mean, rstd);
  for (std::uint32_t column = kGroups * step + own; column < p.columns; column += step)
    norm.finish(norm.input(column, false), column, mean, rstd);
}

struct BackwardParams {
  void* dx = nullptr;
  DType dx_dtype = DType::float32;
  Row dy, x, weight, more;      ///< more: added to dx
  const float* mean = nullptr;  ///< null: RMS norm
  const float* rstd = nullptr;
  std::uint32_t columns = 0;
};

/// g = dy × weight and x̂ = (x − mean) × rstd of one row. kMore: there is something to add.
template <int kWidth, bool kVector, bool kMore>
struct NormBackward {
  const BackwardParams& p;
  std::int64_t row;
  float mean, rstd;

  struct Group {
    element::Raw dy, x, more;
  };
  __device__ Group load(std::uint32_t column) const {
    const std::uint32_t left = p.columns - column;
    const std::int64_t at = row * p.columns + column;
    Group group;
    group.dy = element::load_some<kWidth, kVector>(p.dy.data, at, left, p.dy.dtype);
    group.x = element::load_some<kWidth, kVector>(p.x.data, at, left, p.x.dtype);
    if constexpr (kMore) group.more = element::load_some<kWidth, kVector>(p.more.data, at, left, p.more.dtype);
    return group;
  }
  __device__ void expand(float (&g)[kWidth], float (&x)[kWidth], const Group& group, std::uint32_t column) const {
    element::expand(g, group.dy, element::held<kVector>(p.dy.dtype));
    element::expand(x, group.x, element::held<kVector>(p.x.dtype));
    if (p.weight.data != nullptr) {
      float w[kWidth];
      element::read_some<kWidth, kVector>(w, p.weight.data, column, p.columns - column, p.weight.dtype);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) g[k] *= w[k];
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x[k] = (x[k] - mean) * rstd;
  }
  /// Adds g and g × x̂. Behind the row's end g is 0.
  __device__ void count(float2& sums, const Group& group, std::uint32_t column) const {
    float g[kWidth];
    float x[kWidth];
    expand(g, x, group, column);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sums.x += g[k];
      sums.y += g[k] * x[k];
    }
  }
  __device__ void finish(const Group& group, std::uint32_t column, float mean_g, float mean_gx) const {
    const std::uint32_t left = p.columns - column;
    const std::int64_t at = row * p.columns + column;
    float g[kWidth];
    float x[kWidth];
    expand(g, x, group, column);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) g[k] = rstd * (g[k] - mean_g - x[k] * mean_gx);
    if constexpr (kMore) {
      element::expand(x, group.more, element::held<kVector>(p.more.dtype));
#pragma unroll
      for (int k = 0; k < kWidth; ++k) g[k] += x[k];
    }
    element::write_some<kWidth, kVector>(p.dx, at, left, p.dx_dtype, g);
  }
};

template <int kWidth, bool kVector, bool kMore>
__global__ void __launch_bounds__(kLongestBlock, kWidth == 4 && !kMore ? 2 : 1)
    norm_backward(const __grid_constant__ BackwardParams p) {
  using Norm = NormBackward<kWidth, kVector, kMore>;
  __shared__ float2 shared[32];
  const std::int64_t row = blockIdx.x;
  const Norm norm{p, row, p.mean != nullptr ? p.mean[row] : 0.0F, p.rstd[row]};
  const std::uint32_t step = blockDim.x * kWidth;
  const std::uint32_t own = threadIdx.x * kWidth;
  typename Norm::Group kept[kGroups];
#pragma unroll
  for (int i = 0; i < kGroups; ++i)
    if (i * step + own < p.columns) kept[i] = norm.load(i * step + own);
  float2 sums = make_float2(0, 0);
#pragma unroll
  for (int i = 0; i < kGroups; ++i)
    if (i * step + own < p.columns) norm.count(sums, kept[i], i * step + own);
  for (std::uint32_t column = kGroups * step + own; column < p.columns; column += step)
    norm.count(sums, norm.load(column), column);
  sums = block_sum(sums, shared);
  const float n = static_cast<float>(p.columns);
  const float mean_g = p.mean != nullptr ? sums.x / n : 0.0F;
  const float mean_gx = sums.y / n;
#pragma unroll
  for (int i = 0; i < kGroups; ++i)
    if (i * step + own < p.columns) norm.finish(kept[i], i * step + own, mean_g, mean_gx);
  for (std::uint32_t column = kGroups * step + own; column < p.columns; column += step)
    norm.finish(norm.load(column), column, mean_g, mean_gx);
}

// ---- The weights' gradients: dweight[c] = Σ_r dy × x̂, dbias[c] = Σ_r dy

constexpr int kWarps = 8;  ///< rows that a block has in hand; its 32 lanes take 32 groups of columns

struct WeightsParams {
  float* partial = nullptr;  ///< [chunks, 2, columns]
  Row dy, x;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t rows_a_chunk = 0;
  bool bias = false;
};

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(32 * kWarps, 4) weights_partial(const __grid_constant__ WeightsParams p) {
  __shared__ float shared[kWarps][32][kWidth + 1];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t column = (blockIdx.x * 32 + lane) * kWidth;
  const std::uint32_t first = blockIdx.y * p.rows_a_chunk;
  const std::uint32_t end = min(first + p.rows_a_chunk, p.rows);
  float weight[kWidth] = {};
  float bias[kWidth] = {};
  if (column < p.columns) {
    const std::uint32_t left = p.columns - column;
#pragma unroll 4
    for (std::uint32_t row = first + warp; row < end; row += kWarps) {
      const std::int64_t at = static_cast<std::int64_t>(row) * p.columns + column;
      const element::Raw raw_dy = element::load_some<kWidth, kVector>(p.dy.data, at, left, p.dy.dtype);
      const element::Raw raw_x = element::load_some<kWidth, kVector>(p.x.data, at, left, p.x.dtype);
      const float mean = p.mean != nullptr ? p.mean[row] : 0.0F;
      const float rstd = p.rstd[row];
      float dy[kWidth];
      float x[kWidth];
      element::expand(dy, raw_dy, element::held<kVector>(p.dy.dtype));
      element::expand(x, raw_x, element::held<kVector>(p.x.dtype));
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        weight[k] += dy[k] * (x[k] - mean) * rstd;
        bias[k] += dy[k];
      }
    }
  }
  const auto join = [&](const float(&mine)[kWidth], std::uint32_t which) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) shared[warp][lane][k] = mine[k];
    __syncthreads();
    const std::uint32_t c = threadIdx.x;  // one column a thread
    const std::uint32_t target = blockIdx.x * 32 * kWidth + c;
    if (c < 32 * kWidth && target < p.columns) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += shared[w][c / kWidth][c % kWidth];
      p.partial[(static_cast<std::int64_t>(blockIdx.y) * 2 + which) * p.columns + target] = sum;
    }
    __syncthreads();
  };
  join(weight, 0);
  if (p.bias) join(bias, 1);
}

struct Output {
  void* data = nullptr;
  DType dtype = DType::float32;
};

/// One block a stretch of 32 columns; its warps take chunks in turn.
__global__ void __launch_bounds__(32 * kWarps)
    weights_final(Output weight, Output bias, const float* partial, std::uint32_t chunks, std::uint32_t columns) {
  __shared__ float shared[kWarps][32];
  const Output out = blockIdx.y == 0 ? weight : bias;
  if (out.data == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t column = blockIdx.x * 32 + lane;
  float sum = 0;
  if (column < columns)
    for (std::uint32_t chunk = warp; chunk < chunks; chunk += kWarps)
      sum += partial[(static_cast<std::int64_t>(chunk) * 2 + blockIdx.y) * columns + column];
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int w = 1; w < kWarps; ++w) sum += shared[w][lane];
  element::write<float>(out.data, column, out.dtype, sum);
}

// ---- Launching

constexpr std::uint32_t kLargest = 0x7fffffffU;

Row row_of(const Argument& a) {
  return {a.data, a.dtype()};
}

/// 8 or 4 elements at once, or 0 where a tensor or its rows do not lie on such boundaries.
int width_of(std::initializer_list<Row> tensors, std::uint64_t columns) {
  int width = 8;
  for (const Row& t : tensors)
    if (t.data != nullptr) width = width_with(width, t.dtype);
  if (columns % static_cast<unsigned>(width) != 0) return 0;
  for (const Row& t : tensors)
    if (t.data != nullptr &&
        reinterpret_cast<std::uintptr_t>(t.data) % (static_cast<unsigned>(width) * itemsize(t.dtype)) != 0)
      return 0;
  return width;
}

/// `width` 0: elements are taken one by one, four in a group.
unsigned threads_for(std::uint64_t columns, int width) {
  const auto kept = static_cast<std::uint64_t>(kGroups * (width == 0 ? 4 : width));
  return static_cast<unsigned>(std::clamp<std::uint64_t>(round_up(ceil_div(columns, kept), 32), 32, kLongestBlock));
}

/// All of them contiguous rows of the same length, floats of at most 32 bits; absent ones are skipped.
Result<void> check_rows(const Arguments& args, std::initializer_list<std::size_t> operands, const char* name) {
  for (const std::size_t i : operands) {
    const Argument a = args[i];
    if (!a.present()) continue;
    if (!a.contiguous()) return bad_operand(name, i, "has gaps");
    if (!is_float_up_to_32(a.dtype())) return bad_operand(name, i, "is no float32, bfloat16 or float16");
  }
  return {};
}

Result<void> forward(const Arguments& args, ForwardParams p, const Argument& like, const char* name) {
  if (like.rows() == 0) return {};
  if (like.rows() > kLargest || like.last() > kLargest) return bad_operand(name, 0, "is too large");
  p.columns = static_cast<std::uint32_t>(like.last());
  p.eps = static_cast<float>(args.kernel.alpha);
  const int width = width_of({{p.y, p.y_dtype}, {p.sum, p.sum_dtype}, p.x, p.residual, p.weight, p.bias}, p.columns);
  const auto blocks = static_cast<unsigned>(like.rows());
  const unsigned threads = threads_for(p.columns, width);
  if (width == 8)
    norm_forward<8, true><<<blocks, threads, 0, args.stream>>>(p);
  else if (width == 4)
    norm_forward<4, true><<<blocks, threads, 0, args.stream>>>(p);
  else
    norm_forward<4, false><<<blocks, threads, 0, args.stream>>>(p);
  return launched(name);
}

Result<void> backward(const Arguments& args, const BackwardParams& given, const Argument& like, const char* name) {
  if (like.rows() == 0) return {};
  if (like.rows() > kLargest || like.last() > kLargest) return bad_operand(name, 0, "is too large");
  BackwardParams p = given;
  p.columns = static_cast<std::uint32_t>(like.last());
  const int width = width_of({{p.dx, p.dx_dtype}, p.dy, p.x, p.weight, p.more}, p.columns);
  const auto blocks = static_cast<unsigned>(like.rows());
  const unsigned threads = threads_for(p.columns, width);
  const auto put = [&](auto more) {
    if (width == 8)
      norm_backward<8, true, more.value><<<blocks, threads, 0, args.stream>>>(p);
    else if (width == 4)
      norm_backward<4, true, more.value><<<blocks, threads, 0, args.stream>>>(p);
    else
      norm_backward<4, false, more.value><<<blocks, threads, 0, args.stream>>>(p);
  };
  if (p.more.data != nullptr)
    put(std::true_type{});
  else
    put(std::false_type{});
  return launched(name);
}

struct WeightsCall {
  Argument dweight, dbias, dy, x, mean, rstd;
};

Result<void> backward_weights(const Arguments& args, const WeightsCall& call, Workspace& workspace, const char* name) {
  const std::uint64_t rows = call.x.rows();
  const std::uint64_t columns = call.x.last();
  if (columns == 0) return {};
  if (rows > kLargest || columns > kLargest) return bad_operand(name, 0, "is too large");
  // Enough blocks to fill the GPU about four times, and at least 32 rows a block.
  const int width = width_of({row_of(call.dy), row_of(call.x)}, columns);
  const std::uint64_t tiles = ceil_div(columns, 32 * (width == 8 ? 8 : 4));
  const std::uint64_t wanted = std::max<std::uint64_t>(1, 1024 / tiles);
  const std::uint64_t rows_a_chunk = std::max<std::uint64_t>(round_up(ceil_div(rows, wanted), kWarps), 4 * kWarps);
  const std::uint64_t chunks = std::max<std::uint64_t>(1, ceil_div(rows, rows_a_chunk));
  Result<void*> scratch = workspace.reserve(chunks * 2 * columns * sizeof(float));
  FORESHARD_TRY(scratch);
  WeightsParams p;
  p.partial = static_cast<float*>(*scratch);
  p.dy = row_of(call.dy);
  p.x = row_of(call.x);
  p.mean = static_cast<const float*>(call.mean.data);
  p.rstd = static_cast<const float*>(call.rstd.data);
  p.rows = static_cast<std::uint32_t>(rows);
  p.columns = static_cast<std::uint32_t>(columns);
  p.rows_a_chunk = static_cast<std::uint32_t>(rows_a_chunk);
  p.bias = call.dbias.present();
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(chunks));
  if (width == 8)
    weights_partial<8, true><<<grid, 32 * kWarps, 0, args.stream>>>(p);
  else if (width == 4)
    weights_partial<4, true><<<grid, 32 * kWarps, 0, args.stream>>>(p);
  else
    weights_partial<4, false><<<grid, 32 * kWarps, 0, args.stream>>>(p);
  FORESHARD_TRY(launched(name));
  const dim3 final_grid(static_cast<unsigned>(ceil_div(columns, 32)), 2);
  weights_final<<<final_grid, 32 * kWarps, 0, args.stream>>>({call.dweight.data, call.dweight.dtype()},
                                                             {call.dbias.data, call.dbias.dtype()}, p.partial,
                                                             static_cast<std::uint32_t>(chunks), p.columns);
  return launched(name);
}

Result<void> statistics(const Arguments& args, std::initializer_list<std::size_t> operands, const char* name) {
  for (const std::size_t i : operands)
    if (!args[i].present() || args[i].dtype() != DType::float32 || !args[i].contiguous())
      return bad_operand(name, i, "is no contiguous float32 statistic");
  return {};
}

Result<void> layer_norm(const Arguments& args) {
  constexpr const char* kName = "layer_norm";
  FORESHARD_TRY(check_rows(args, {0, 3, 4, 5}, kName));
  FORESHARD_TRY(statistics(args, {1, 2}, kName));
  ForwardParams p;
  p.y = args[0].data;
  p.y_dtype = args[0].dtype();
  p.mean = static_cast<float*>(args[1].data);
  p.rstd = static_cast<float*>(args[2].data);
  p.x = row_of(args[3]);
  p.weight = row_of(args[4]);
  p.bias = row_of(args[5]);
  return forward(args, p, args[3], kName);
}

Result<void> rms_norm(const Arguments& args, bool add) {
  const char* name = add ? "add_rms_norm" : "rms_norm";
  const std::size_t y = add ? 1 : 0;
  FORESHARD_TRY(statistics(args, {y + 1}, name));
  ForwardParams p;
  if (add) {
    FORESHARD_TRY(check_rows(args, {0, 1, 3, 4, 5}, name));
    p.sum = args[0].data;
    p.sum_dtype = args[0].dtype();
    p.residual = row_of(args[4]);
    p.weight = row_of(args[5]);
  } else {
    FORESHARD_TRY(check_rows(args, {0, 2, 3}, name));
    p.weight = row_of(args[3]);
  }
  p.y = args[y].data;
  p.y_dtype = args[y].dtype();
  p.rstd = static_cast<float*>(args[y + 1].data);
  p.x = row_of(args[y + 2]);
  return forward(args, p, args[y + 2], name);
}

}  // namespace

Result<void> run_norm(const Arguments& args, Workspace& workspace) {
  const auto number = [&](std::size_t i) { return static_cast<const float*>(args[i].data); };
  const Argument none{args[args.count()].view, nullptr};
  switch (args.kernel.op) {
    case KernelOp::layer_norm:
      return layer_norm(args);
    case KernelOp::rms_norm:
      return rms_norm(args, false);
    case KernelOp::add_rms_norm:
      return rms_norm(args, true);
    case KernelOp::layer_norm_backward:
      FORESHARD_TRY(check_rows(args, {0, 1, 2, 5}, "layer_norm_backward"));
      FORESHARD_TRY(statistics(args, {3, 4}, "layer_norm_backward"));
      return backward(args,
                      {args[0].data,
                       args[0].dtype(),
                       row_of(args[1]),
                       row_of(args[2]),
                       row_of(args[5]),
                       {},
                       number(3),
                       number(4),
                       0},
                      args[2], "layer_norm_backward");
    case KernelOp::rms_norm_backward:
      FORESHARD_TRY(check_rows(args, {0, 1, 2, 4}, "rms_norm_backward"));
      FORESHARD_TRY(statistics(args, {3}, "rms_norm_backward"));
      return backward(
          args,
          {args[0].data, args[0].dtype(), row_of(args[1]), row_of(args[2]), row_of(args[4]), {}, nullptr, number(3), 0},
          args[2], "rms_norm_backward");
    case KernelOp::add_rms_norm_backward:
      FORESHARD_TRY(check_rows(args, {0, 1, 2, 3, 5}, "add_rms_norm_backward"));
      FORESHARD_TRY(statistics(args, {4}, "add_rms_norm_backward"));
      return backward(args,
                      {args[0].data, args[0].dtype(), row_of(args[1]), row_of(args[3]), row_of(args[5]),
                       row_of(args[2]), nullptr, number(4), 0},
                      args[3], "add_rms_norm_backward");
    case KernelOp::layer_norm_backward_weights:
      FORESHARD_TRY(check_rows(args, {0, 1, 2, 3}, "layer_norm_backward_weights"));
      FORESHARD_TRY(statistics(args, {4, 5}, "layer_norm_backward_weights"));
      return backward_weights(args, {args[0], args[1], args[2], args[3], args[4], args[5]}, workspace,
                              "layer_norm_backward_weights");
    case KernelOp::rms_norm_backward_weight:
      FORESHARD_TRY(check_rows(args, {0, 1, 2}, "rms_norm_backward_weight"));
      FORESHARD_TRY(statistics(args, {3}, "rms_norm_backward_weight"));
      return backward_weights(args, {args[0], none, args[1], args[2], none, args[3]}, workspace,
                              "rms_norm_backward_weight");
    default:
      return device_failure("not a norm");
  }
}

}  // namespace foreshard::gpu
