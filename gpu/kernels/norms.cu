#include "gpu/kernels/element.cuh"
#include "gpu/kernels/norms.hpp"

namespace foreshard::gpu {
namespace {

// ---- One block a row. A thread keeps kKept groups of its row's elements in registers; longer rows are read again.

constexpr int kKept = 2;
constexpr int kLongestBlock = 512;

struct Row {
  const void* data = nullptr;  ///< null: absent
  DType dtype = DType::float32;
};

struct ForwardParams {
  void* y = nullptr;
  DType y_dtype = DType::float32;
  void* sum = nullptr;  ///< x + residual, in x's place; null: x is normed itself
  DType sum_dtype = DType::float32;
  float* mean = nullptr;  ///< null: RMS norm
  float* rstd = nullptr;
  Row x, residual, weight, bias;
  std::uint32_t columns = 0;
  float eps = 0;
};

__device__ inline float rounded(float value, DType dtype) {
  if (dtype == DType::bfloat16) return __bfloat162float(__float2bfloat16_rn(value));
  if (dtype == DType::float16) return __half2float(__float2half_rn(value));
  return value;
}

/// The normed tensor's elements of this group: x, or x + residual rounded to the sum's dtype (and written on `store`).
template <bool kVector>
__device__ inline void input(float (&v)[kGroup], const ForwardParams& p, std::int64_t row, std::uint32_t column,
                             bool store) {
  const std::int64_t at = row * p.columns + column;
  const std::uint32_t left = p.columns - column;
  element::read_some<kVector>(v, p.x.data, at, left, p.x.dtype);
  if (p.sum == nullptr) return;
  float r[kGroup];
  element::read_some<kVector>(r, p.residual.data, at, left, p.residual.dtype);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = rounded(v[k] + r[k], p.sum_dtype);
  if (store) element::write_some<kVector>(p.sum, at, left, p.sum_dtype, v);
}

template <bool kVector>
__global__ void __launch_bounds__(kLongestBlock, 2) norm_forward(const __grid_constant__ ForwardParams p) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x;
  const std::uint32_t step = blockDim.x * kGroup;
  float kept[kKept][kGroup];
  float sum = 0;
  float squares = 0;
  // A first value of the row as the origin keeps the one-pass variance exact for rows far from zero.
  const float origin = p.mean != nullptr ? element::read<float>(p.x.data, row * p.columns, p.x.dtype) : 0.0F;
#pragma unroll
  for (int g = 0; g < kKept; ++g) {
    const std::uint32_t column = g * step + threadIdx.x * kGroup;
    if (column >= p.columns) break;
    input<kVector>(kept[g], p, row, column, true);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const float d = kVector || k < p.columns - column ? kept[g][k] - origin : 0.0F;
      sum += d;
      squares += d * d;
    }
  }
  for (std::uint32_t column = kKept * step + threadIdx.x * kGroup; column < p.columns; column += step) {
    float v[kGroup];
    input<kVector>(v, p, row, column, true);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const float d = kVector || k < p.columns - column ? v[k] - origin : 0.0F;
      sum += d;
      squares += d * d;
    }
  }
  const float n = static_cast<float>(p.columns);
  squares = block_sum(squares, shared);
  float mean = 0;
  float variance = squares / n;
  if (p.mean != nullptr) {
    const float shifted = block_sum(sum, shared) / n;
    variance = fmaxf(variance - shifted * shifted, 0.0F);
    mean = origin + shifted;
  }
  const float rstd = rsqrtf(variance + p.eps);
  if (threadIdx.x == 0) {
    if (p.mean != nullptr) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
  const auto finish = [&](float(&v)[kGroup], std::uint32_t column) {
    const std::uint32_t left = p.columns - column;
    float w[kGroup];
    float b[kGroup];
    if (p.weight.data != nullptr) element::read_some<kVector>(w, p.weight.data, column, left, p.weight.dtype);
    if (p.bias.data != nullptr) element::read_some<kVector>(b, p.bias.data, column, left, p.bias.dtype);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      v[k] = (v[k] - mean) * rstd * (p.weight.data != nullptr ? w[k] : 1.0F);
      if (p.bias.data != nullptr) v[k] += b[k];
    }
    element::write_some<kVector>(p.y, row * p.columns + column, left, p.y_dtype, v);
  };
#pragma unroll
  for (int g = 0; g < kKept; ++g) {
    const std::uint32_t column = g * step + threadIdx.x * kGroup;
    if (column >= p.columns) break;
    finish(kept[g], column);
  }
  for (std::uint32_t column = kKept * step + threadIdx.x * kGroup; column < p.columns; column += step) {
    float v[kGroup];
    input<kVector>(v, p, row, column, false);
    finish(v, column);
  }
}

struct BackwardParams {
  void* dx = nullptr;
  DType dx_dtype = DType::float32;
  Row dy, x, weight, more;      ///< more: added to dx
  const float* mean = nullptr;  ///< null: RMS norm
  const float* rstd = nullptr;
  std::uint32_t columns = 0;
};

template <bool kVector>
__global__ void __launch_bounds__(kLongestBlock, 2) norm_backward(const __grid_constant__ BackwardParams p) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x;
  const std::uint32_t step = blockDim.x * kGroup;
  const float mean = p.mean != nullptr ? p.mean[row] : 0.0F;
  const float rstd = p.rstd[row];
  float g_kept[kKept][kGroup];
  float x_kept[kKept][kGroup];
  // g = dy × weight; x̂ = (x − mean) × rstd
  const auto load = [&](float(&g)[kGroup], float(&x)[kGroup], std::uint32_t column) {
    const std::uint32_t left = p.columns - column;
    const std::int64_t at = row * p.columns + column;
    element::read_some<kVector>(g, p.dy.data, at, left, p.dy.dtype);
    element::read_some<kVector>(x, p.x.data, at, left, p.x.dtype);
    float w[kGroup];
    if (p.weight.data != nullptr) element::read_some<kVector>(w, p.weight.data, column, left, p.weight.dtype);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (p.weight.data != nullptr) g[k] *= w[k];
      x[k] = (x[k] - mean) * rstd;
    }
  };
  float sum_g = 0;
  float sum_gx = 0;
  const auto count = [&](const float(&g)[kGroup], const float(&x)[kGroup], std::uint32_t column) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (!kVector && k >= p.columns - column) break;
      sum_g += g[k];
      sum_gx += g[k] * x[k];
    }
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const std::uint32_t column = i * step + threadIdx.x * kGroup;
    if (column >= p.columns) break;
    load(g_kept[i], x_kept[i], column);
    count(g_kept[i], x_kept[i], column);
  }
  for (std::uint32_t column = kKept * step + threadIdx.x * kGroup; column < p.columns; column += step) {
    float g[kGroup];
    float x[kGroup];
    load(g, x, column);
    count(g, x, column);
  }
  const float n = static_cast<float>(p.columns);
  const float mean_gx = block_sum(sum_gx, shared) / n;
  const float mean_g = p.mean != nullptr ? block_sum(sum_g, shared) / n : 0.0F;
  const auto finish = [&](const float(&g)[kGroup], const float(&x)[kGroup], std::uint32_t column) {
    const std::uint32_t left = p.columns - column;
    const std::int64_t at = row * p.columns + column;
    float out[kGroup];
    if (p.more.data != nullptr) element::read_some<kVector>(out, p.more.data, at, left, p.more.dtype);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const float d = rstd * (g[k] - mean_g - x[k] * mean_gx);
      out[k] = p.more.data != nullptr ? out[k] + d : d;
    }
    element::write_some<kVector>(p.dx, at, left, p.dx_dtype, out);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const std::uint32_t column = i * step + threadIdx.x * kGroup;
    if (column >= p.columns) break;
    finish(g_kept[i], x_kept[i], column);
  }
  for (std::uint32_t column = kKept * step + threadIdx.x * kGroup; column < p.columns; column += step) {
    float g[kGroup];
    float x[kGroup];
    load(g, x, column);
    finish(g, x, column);
  }
}

// ---- The weights' gradients: dweight[c] = Σ_r dy × x̂, dbias[c] = Σ_r dy

constexpr int kWarps = 8;  ///< rows that a block has in hand; its 32 lanes take 32 groups of eight columns

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

template <bool kVector>
__global__ void __launch_bounds__(32 * kWarps) weights_partial(const __grid_constant__ WeightsParams p) {
  __shared__ float shared[kWarps][32][kGroup + 1];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t column = (blockIdx.x * 32 + lane) * kGroup;
  const std::uint32_t first = blockIdx.y * p.rows_a_chunk;
  const std::uint32_t end = min(first + p.rows_a_chunk, p.rows);
  float weight[kGroup] = {};
  float bias[kGroup] = {};
  if (column < p.columns) {
#pragma unroll 4
    for (std::uint32_t row = first + warp; row < end; row += kWarps) {
      const std::uint32_t left = p.columns - column;
      const std::int64_t at = static_cast<std::int64_t>(row) * p.columns + column;
      float dy[kGroup];
      float x[kGroup];
      element::read_some<kVector>(dy, p.dy.data, at, left, p.dy.dtype);
      element::read_some<kVector>(x, p.x.data, at, left, p.x.dtype);
      const float mean = p.mean != nullptr ? p.mean[row] : 0.0F;
      const float rstd = p.rstd[row];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        weight[k] += dy[k] * (x[k] - mean) * rstd;
        bias[k] += dy[k];
      }
    }
  }
  const auto join = [&](const float(&mine)[kGroup], std::uint32_t which) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) shared[warp][lane][k] = mine[k];
    __syncthreads();
    const std::uint32_t c = threadIdx.x;  // one column a thread: 256 of both
    const std::uint32_t target = blockIdx.x * 32 * kGroup + c;
    if (target < p.columns) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += shared[w][c / kGroup][c % kGroup];
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

bool vector_of(std::initializer_list<Argument> tensors, std::uint64_t columns) {
  if (columns % kGroup != 0) return false;
  for (const Argument& t : tensors)
    if (t.present() && !t.aligned(16)) return false;
  return true;
}

unsigned threads_for(std::uint64_t columns) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(round_up(ceil_div(columns, kKept * kGroup), 32), 32, kLongestBlock));
}

/// All of them gapless rows of the same length, floats of at most 32 bits; absent ones are skipped.
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
  p.eps = static_cast<float>(args.c.alpha);
  bool vector = p.columns % kGroup == 0;
  for (const void* data : {static_cast<const void*>(p.y), static_cast<const void*>(p.sum), p.x.data, p.residual.data,
                           p.weight.data, p.bias.data})
    vector = vector && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  const auto blocks = static_cast<unsigned>(like.rows());
  if (vector)
    norm_forward<true><<<blocks, threads_for(p.columns), 0, args.stream>>>(p);
  else
    norm_forward<false><<<blocks, threads_for(p.columns), 0, args.stream>>>(p);
  return launched(name);
}

Result<void> backward(const Arguments& args, const BackwardParams& given, const Argument& like, const char* name) {
  if (like.rows() == 0) return {};
  if (like.rows() > kLargest || like.last() > kLargest) return bad_operand(name, 0, "is too large");
  BackwardParams p = given;
  p.columns = static_cast<std::uint32_t>(like.last());
  bool vector = p.columns % kGroup == 0;
  for (const void* data : {static_cast<const void*>(p.dx), p.dy.data, p.x.data, p.weight.data, p.more.data})
    vector = vector && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  const auto blocks = static_cast<unsigned>(like.rows());
  if (vector)
    norm_backward<true><<<blocks, threads_for(p.columns), 0, args.stream>>>(p);
  else
    norm_backward<false><<<blocks, threads_for(p.columns), 0, args.stream>>>(p);
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
  const std::uint64_t tiles = ceil_div(columns, 32 * kGroup);
  const std::uint64_t wanted = std::max<std::uint64_t>(1, 1024 / tiles);
  const std::uint64_t rows_a_chunk = std::max<std::uint64_t>(round_up(ceil_div(rows, wanted), kWarps), 4 * kWarps);
  const std::uint64_t chunks = std::max<std::uint64_t>(1, ceil_div(rows, rows_a_chunk));
  Result<void*> scratch = workspace.reserve(chunks * 2 * columns * sizeof(float));
  if (!scratch) return tl::unexpected(std::move(scratch.error()));
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
  if (vector_of({call.dy, call.x}, columns))
    weights_partial<true><<<grid, 32 * kWarps, 0, args.stream>>>(p);
  else
    weights_partial<false><<<grid, 32 * kWarps, 0, args.stream>>>(p);
  FORESHARD_KERNELS_TRY(launched(name));
  const dim3 final_grid(static_cast<unsigned>(ceil_div(columns, 32)), 2);
  weights_final<<<final_grid, 32 * kWarps, 0, args.stream>>>({call.dweight.data, call.dweight.dtype()},
                                                             {call.dbias.data, call.dbias.dtype()}, p.partial,
                                                             static_cast<std::uint32_t>(chunks), p.columns);
  return launched(name);
}

Result<void> statistics(const Arguments& args, std::initializer_list<std::size_t> operands, const char* name) {
  for (const std::size_t i : operands)
    if (!args[i].present() || args[i].dtype() != DType::float32 || !args[i].contiguous())
      return bad_operand(name, i, "is no gapless float32 statistic");
  return {};
}

Result<void> layer_norm(const Arguments& args) {
  constexpr const char* kName = "layer_norm";
  FORESHARD_KERNELS_TRY(check_rows(args, {0, 3, 4, 5}, kName));
  FORESHARD_KERNELS_TRY(statistics(args, {1, 2}, kName));
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
  FORESHARD_KERNELS_TRY(statistics(args, {y + 1}, name));
  ForwardParams p;
  if (add) {
    FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 3, 4, 5}, name));
    p.sum = args[0].data;
    p.sum_dtype = args[0].dtype();
    p.residual = row_of(args[4]);
    p.weight = row_of(args[5]);
  } else {
    FORESHARD_KERNELS_TRY(check_rows(args, {0, 2, 3}, name));
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
  switch (args.c.function) {
    case Function::layer_norm:
      return layer_norm(args);
    case Function::rms_norm:
      return rms_norm(args, false);
    case Function::add_rms_norm:
      return rms_norm(args, true);
    case Function::layer_norm_backward:
      FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 2, 5}, "layer_norm_backward"));
      FORESHARD_KERNELS_TRY(statistics(args, {3, 4}, "layer_norm_backward"));
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
    case Function::rms_norm_backward:
      FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 2, 4}, "rms_norm_backward"));
      FORESHARD_KERNELS_TRY(statistics(args, {3}, "rms_norm_backward"));
      return backward(
          args,
          {args[0].data, args[0].dtype(), row_of(args[1]), row_of(args[2]), row_of(args[4]), {}, nullptr, number(3), 0},
          args[2], "rms_norm_backward");
    case Function::add_rms_norm_backward:
      FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 2, 3, 5}, "add_rms_norm_backward"));
      FORESHARD_KERNELS_TRY(statistics(args, {4}, "add_rms_norm_backward"));
      return backward(args,
                      {args[0].data, args[0].dtype(), row_of(args[1]), row_of(args[3]), row_of(args[5]),
                       row_of(args[2]), nullptr, number(4), 0},
                      args[3], "add_rms_norm_backward");
    case Function::layer_norm_backward_weights:
      FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 2, 3}, "layer_norm_backward_weights"));
      FORESHARD_KERNELS_TRY(statistics(args, {4, 5}, "layer_norm_backward_weights"));
      return backward_weights(args, {args[0], args[1], args[2], args[3], args[4], args[5]}, workspace,
                              "layer_norm_backward_weights");
    case Function::rms_norm_backward_weight:
      FORESHARD_KERNELS_TRY(check_rows(args, {0, 1, 2}, "rms_norm_backward_weight"));
      FORESHARD_KERNELS_TRY(statistics(args, {3}, "rms_norm_backward_weight"));
      return backward_weights(args, {args[0], none, args[1], args[2], none, args[3]}, workspace,
                              "rms_norm_backward_weight");
    default:
      return device_failure("not a norm");
  }
}

}  // namespace foreshard::gpu
