#include <algorithm>

#include "gpu/kernels/attention.hpp"
#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRowsAWarp = 4;
constexpr int kRows = kWarps * kRowsAWarp;  ///< queries (or keys, for their gradients) of a block
constexpr int kTile = 32;                   ///< keys (or queries) in shared memory at a time: a lane one of them

/// [batch, heads, length, head_dim]
struct Tensor4 {
  void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t strides[4] = {};

  __device__ float read(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
    return element::read<float>(data, b * strides[0] + h * strides[1] + i * strides[2] + d * strides[3], dtype);
  }
  __device__ void write(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d, float value) const {
    element::write<float>(data, b * strides[0] + h * strides[1] + i * strides[2] + d * strides[3], dtype, value);
  }
};

struct Params {
  Tensor4 q, k, v, out, d_out, dq, dk, dv, logsumexp;  ///< logsumexp: the last dimension is not read
  float* delta = nullptr;                              ///< [batch, heads, queries]: Σ d_out × out
  int heads = 0;
  int kv_heads = 0;
  int queries = 0;
  int keys = 0;
  int dim = 0;
  float scale = 1;
  bool causal = false;
};

/// `rows` rows of a tensor from `first` on into shared memory with `pitch` floats a row; zeros behind the end.
__device__ void load_rows(float* shared, int pitch, const Tensor4& t, std::int64_t b, std::int64_t h, int first,
                          int rows, int length, int dim) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * dim; i += kThreads) {
    const int row = i / dim;
    const int d = i - row * dim;
    shared[row * pitch + d] = first + row < length ? t.read(b, h, first + row, d) : 0.0F;
  }
}

__device__ inline float dot(const float* a, const float* b, int dim) {
  float sum = 0;
#pragma unroll 4
  for (int d = 0; d < dim; ++d) sum = fmaf(a[d], b[d], sum);
  return sum;
}

/// A warp four queries, a lane one key of the tile for the scores and dims lane, lane + 32, … for the output.
template <int kDims>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* q_rows = memory;
  float* k_tile = q_rows + kRows * pitch;
  float* v_tile = k_tile + kTile * pitch;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.heads;
  const std::int64_t h = blockIdx.y % p.heads;
  const std::int64_t kv = h / (p.heads / p.kv_heads);
  const int first = static_cast<int>(blockIdx.x) * kRows;
  load_rows(q_rows, pitch, p.q, b, h, first, kRows, p.queries, p.dim);
  float largest[kRowsAWarp], sum[kRowsAWarp], out[kRowsAWarp][kDims];
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    largest[r] = -INFINITY;
    sum[r] = 0;

#pragma unroll
    for (int c = 0; c < kDims; ++c) out[r][c] = 0;
  }
  const int end = p.causal ? min(p.keys, first + kRows) : p.keys;
  for (int key = 0; key < end; key += kTile) {
    __syncthreads();
    load_rows(k_tile, pitch, p.k, b, kv, key, kTile, p.keys, p.dim);
    load_rows(v_tile, pitch, p.v, b, kv, key, kTile, p.keys, p.dim);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRowsAWarp; ++r) {
      const int query = first + warp * kRowsAWarp + r;
      const bool seen = key + lane < p.keys && (!p.causal || key + lane <= query);
      const float score =
          seen ? p.scale * dot(q_rows + (warp * kRowsAWarp + r) * pitch, k_tile + lane * pitch, p.dim) : -INFINITY;
      const float top = fmaxf(largest[r], warp_max(score));
      if (top == -INFINITY) continue;
      const float kept = expf(largest[r] - top);
      const float weight = expf(score - top);
      largest[r] = top;
      sum[r] = sum[r] * kept + warp_sum(weight);
#pragma unroll
      for (int c = 0; c < kDims; ++c) out[r][c] *= kept;
      for (int j = 0; j < kTile; ++j) {
        const float w = __shfl_sync(0xffffffffU, weight, j);
#pragma unroll
        for (int c = 0; c < kDims; ++c)
          if (lane + 32 * c < p.dim) out[r][c] = fmaf(w, v_tile[j * pitch + lane + 32 * c], out[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    const int query = first + warp * kRowsAWarp + r;
    if (query >= p.queries) break;
#pragma unroll
    for (int c = 0; c < kDims; ++c)
      if (lane + 32 * c < p.dim) p.out.write(b, h, query, lane + 32 * c, out[r][c] / sum[r]);
    if (lane == 0) p.logsumexp.write(b, h, query, 0, largest[r] + logf(sum[r]));
  }
}

/// delta = Σ d_out × out: a warp a query.
__global__ void __launch_bounds__(kThreads) row_deltas(const __grid_constant__ Params p) {
  const int query = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (query >= p.queries) return;
  const std::int64_t b = blockIdx.y / p.heads;
  const std::int64_t h = blockIdx.y % p.heads;
  float sum = 0;
  for (int d = lane; d < p.dim; d += 32) sum += p.d_out.read(b, h, query, d) * p.out.read(b, h, query, d);
  sum = warp_sum(sum);
  if (lane == 0) p.delta[static_cast<std::int64_t>(blockIdx.y) * p.queries + query] = sum;
}

template <int kDims>
__global__ void __launch_bounds__(kThreads) query_gradients(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* q_rows = memory;
  float* d_rows = q_rows + kRows * pitch;
  float* k_tile = d_rows + kRows * pitch;
  float* v_tile = k_tile + kTile * pitch;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.heads;
  const std::int64_t h = blockIdx.y % p.heads;
  const std::int64_t kv = h / (p.heads / p.kv_heads);
  const int first = static_cast<int>(blockIdx.x) * kRows;
  load_rows(q_rows, pitch, p.q, b, h, first, kRows, p.queries, p.dim);
  load_rows(d_rows, pitch, p.d_out, b, h, first, kRows, p.queries, p.dim);
  float norm[kRowsAWarp], delta[kRowsAWarp], dq[kRowsAWarp][kDims];
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    const int query = min(first + warp * kRowsAWarp + r, p.queries - 1);
    norm[r] = p.logsumexp.read(b, h, query, 0);
    delta[r] = p.delta[static_cast<std::int64_t>(blockIdx.y) * p.queries + query];
#pragma unroll
    for (int c = 0; c < kDims; ++c) dq[r][c] = 0;
  }
  const int end = p.causal ? min(p.keys, first + kRows) : p.keys;
  for (int key = 0; key < end; key += kTile) {
    __syncthreads();
    load_rows(k_tile, pitch, p.k, b, kv, key, kTile, p.keys, p.dim);
    load_rows(v_tile, pitch, p.v, b, kv, key, kTile, p.keys, p.dim);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRowsAWarp; ++r) {
      const int query = first + warp * kRowsAWarp + r;
      const bool seen = key + lane < p.keys && (!p.causal || key + lane <= query);
      float ds = 0;
      if (seen) {
        const int row = (warp * kRowsAWarp + r) * pitch;
        const float weight = expf(p.scale * dot(q_rows + row, k_tile + lane * pitch, p.dim) - norm[r]);
        ds = weight * (dot(d_rows + row, v_tile + lane * pitch, p.dim) - delta[r]) * p.scale;
      }
      for (int j = 0; j < kTile; ++j) {
        const float w = __shfl_sync(0xffffffffU, ds, j);
#pragma unroll
        for (int c = 0; c < kDims; ++c)
          if (lane + 32 * c < p.dim) dq[r][c] = fmaf(w, k_tile[j * pitch + lane + 32 * c], dq[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    const int query = first + warp * kRowsAWarp + r;
    if (query >= p.queries) break;
#pragma unroll
    for (int c = 0; c < kDims; ++c)
      if (lane + 32 * c < p.dim) p.dq.write(b, h, query, lane + 32 * c, dq[r][c]);
  }
}

/// A warp four keys; the queries of every head of the keys' group pass by, a lane one of them.
template <int kDims>
__global__ void __launch_bounds__(kThreads) key_gradients(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* k_rows = memory;
  float* v_rows = k_rows + kRows * pitch;
  float* q_tile = v_rows + kRows * pitch;
  float* d_tile = q_tile + kTile * pitch;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.kv_heads;
  const std::int64_t kv = blockIdx.y % p.kv_heads;
  const int group = p.heads / p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) * kRows;
  load_rows(k_rows, pitch, p.k, b, kv, first, kRows, p.keys, p.dim);
  load_rows(v_rows, pitch, p.v, b, kv, first, kRows, p.keys, p.dim);
  float dk[kRowsAWarp][kDims] = {};
  float dv[kRowsAWarp][kDims] = {};
  const int begin = p.causal ? first / kTile * kTile : 0;
  for (int member = 0; member < group; ++member) {
    const std::int64_t h = kv * group + member;
    const float* deltas = p.delta + (b * p.heads + h) * p.queries;
    for (int tile = begin; tile < p.queries; tile += kTile) {
      __syncthreads();
      load_rows(q_tile, pitch, p.q, b, h, tile, kTile, p.queries, p.dim);
      load_rows(d_tile, pitch, p.d_out, b, h, tile, kTile, p.queries, p.dim);
      __syncthreads();
      const int query = tile + lane;
      const bool inside = query < p.queries;
      const float norm = inside ? p.logsumexp.read(b, h, query, 0) : 0.0F;
      const float delta = inside ? deltas[query] : 0.0F;
#pragma unroll
      for (int r = 0; r < kRowsAWarp; ++r) {
        const int key = first + warp * kRowsAWarp + r;
        const int row = (warp * kRowsAWarp + r) * pitch;
        float weight = 0;
        float ds = 0;
        if (inside && key < p.keys && (!p.causal || key <= query)) {
          weight = expf(p.scale * dot(k_rows + row, q_tile + lane * pitch, p.dim) - norm);
          ds = weight * (dot(v_rows + row, d_tile + lane * pitch, p.dim) - delta) * p.scale;
        }
        for (int j = 0; j < kTile; ++j) {
          const float w = __shfl_sync(0xffffffffU, weight, j);
          const float g = __shfl_sync(0xffffffffU, ds, j);
#pragma unroll
          for (int c = 0; c < kDims; ++c) {
            if (lane + 32 * c >= p.dim) continue;
            dv[r][c] = fmaf(w, d_tile[j * pitch + lane + 32 * c], dv[r][c]);
            dk[r][c] = fmaf(g, q_tile[j * pitch + lane + 32 * c], dk[r][c]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    const int key = first + warp * kRowsAWarp + r;
    if (key >= p.keys) break;
#pragma unroll
    for (int c = 0; c < kDims; ++c) {
      if (lane + 32 * c >= p.dim) continue;
      p.dk.write(b, kv, key, lane + 32 * c, dk[r][c]);
      p.dv.write(b, kv, key, lane + 32 * c, dv[r][c]);
    }
  }
}

Tensor4 tensor(const Argument& a) {
  Tensor4 t{a.data, a.dtype(), {}};
  for (std::size_t d = 0; d < std::min<std::size_t>(a.rank(), 4); ++d)
    t.strides[d] = static_cast<std::int64_t>(a.view->strides[d]);
  return t;
}

/// `rows`: rows of the block and rows of the tiles in shared memory.
template <class Kernel>
Result<void> launch(Kernel kernel, const Params& p, dim3 grid, int rows, cudaStream_t stream, const char* name) {
  const std::size_t bytes = static_cast<std::size_t>(rows) * (p.dim + 1) * sizeof(float);
  if (bytes > 48 * kKiB)
    FORESHARD_KERNELS_TRY(cuda_status(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name));
  kernel<<<grid, kThreads, bytes, stream>>>(p);
  return launched(name);
}

template <int kDims>
Result<void> run(const Params& p, std::uint64_t batch, bool backward, cudaStream_t stream) {
  const auto query_heads = static_cast<unsigned>(batch * p.heads);
  const dim3 queries(static_cast<unsigned>(ceil_div(p.queries, kRows)), query_heads);
  if (!backward) return launch(attend<kDims>, p, queries, kRows + 2 * kTile, stream, "attention");
  row_deltas<<<dim3(static_cast<unsigned>(ceil_div(p.queries, kWarps)), query_heads), kThreads, 0, stream>>>(p);
  FORESHARD_KERNELS_TRY(launched("attention_backward"));
  FORESHARD_KERNELS_TRY(
      launch(query_gradients<kDims>, p, queries, 2 * kRows + 2 * kTile, stream, "attention_backward"));
  const dim3 keys(static_cast<unsigned>(ceil_div(p.keys, kRows)), static_cast<unsigned>(batch * p.kv_heads));
  return launch(key_gradients<kDims>, p, keys, 2 * kRows + 2 * kTile, stream, "attention_backward");
}

}  // namespace

Result<void> run_plain_attention(const Arguments& args, Workspace& workspace) {
  const bool backward = args.c.function == Function::attention_backward;
  Params p;
  const std::size_t first = backward ? 4 : 2;
  p.q = tensor(args[first]);
  p.k = tensor(args[first + 1]);
  p.v = tensor(args[first + 2]);
  p.out = tensor(args[backward ? 7 : 0]);
  p.logsumexp = tensor(args[backward ? 8 : 1]);
  p.logsumexp.strides[3] = 0;
  const Argument q = args[first];
  const Argument k = args[first + 1];
  p.heads = static_cast<int>(q.size(1));
  p.kv_heads = static_cast<int>(k.size(1));
  p.queries = static_cast<int>(q.size(2));
  p.keys = static_cast<int>(k.size(2));
  p.dim = static_cast<int>(q.size(3));
  p.scale = static_cast<float>(args.c.alpha);
  p.causal = args.c.causal;
  const std::uint64_t batch = q.size(0);
  if (q.numel() == 0) return {};
  if (batch * q.size(1) > 65535 || q.size(2) > 0x7fffffffU - kTile || k.size(2) > 0x7fffffffU - kTile)
    return bad_operand("attention", first, "is too large");
  if (backward) {
    p.d_out = tensor(args[3]);
    p.dq = tensor(args[0]);
    p.dk = tensor(args[1]);
    p.dv = tensor(args[2]);
    Result<void*> scratch = workspace.reserve(q.rows() * sizeof(float));
    if (!scratch) return tl::unexpected(std::move(scratch.error()));
    p.delta = static_cast<float*>(*scratch);
  }
  if (p.dim <= 32) return run<1>(p, batch, backward, args.stream);
  if (p.dim <= 64) return run<2>(p, batch, backward, args.stream);
  if (p.dim <= 128) return run<4>(p, batch, backward, args.stream);
  if (p.dim <= 256) return run<8>(p, batch, backward, args.stream);
  return bad_operand("attention", first, "has a head dimension beyond 256");
}

}  // namespace foreshard::gpu
