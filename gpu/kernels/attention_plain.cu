// Scaled dot-product attention in float32: forward by online softmax (Milakov and Gimelshein 2018; FlashAttention's
// recurrence), backward by recomputing the probabilities from logsumexp, in two kernels: dq by queries, dk and dv by
// keys. A block keeps its rows in shared memory and goes over tiles of 32 keys (or queries), a lane one of them. Every
// sum has one thread and one order, so that results are the same bits in every run. Right, and slow: no tensor cores.
#include "gpu/kernels/attention_plain.hpp"

#include <algorithm>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kTile = 32;   ///< keys (or queries) in shared memory at a time: a lane one of them
constexpr int kPart = 128;  ///< of the head's dimensions that are in shared memory at a time
constexpr int kPitch = kPart + 1;

// kDims: dimensions of a lane (lane, lane + 32, …), so up to 32 × kDims of a head. kRows: queries (or keys, for their
// gradients) of a warp. A block has kWarps × kRows of them.
template <int kDims>
constexpr int kParts = (kDims + 3) / 4;
template <int kDims>
constexpr int kDimsOfPart = kDims < 4 ? kDims : 4;

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

/// `rows` rows from `first` on, `dims` dimensions from `from` on, into shared memory with `pitch` floats a row; zeros
/// behind the tensor's end.
__device__ void load_rows(float* shared, int pitch, const Tensor4& t, std::int64_t b, std::int64_t h, int first,
                          int rows, int length, int from, int dims) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * dims; i += kThreads) {
    const int row = i / dims;
    const int d = i - row * dims;
    shared[row * pitch + d] = first + row < length ? t.read(b, h, first + row, from + d) : 0.0F;
  }
}

__device__ inline float dot(const float* a, const float* b, int dims) {
  float sum = 0;
#pragma unroll 4
  for (int d = 0; d < dims; ++d) sum = fmaf(a[d], b[d], sum);
  return sum;
}

/// sums[dims of the lane in this part] += weight of lane j × tile[j], over all lanes j.
template <int kDims>
__device__ inline void gather_part(float (&sums)[kDims], int part, float weight, const float* tile, int lane,
                                   int dims) {
#pragma unroll 4
  for (int j = 0; j < kTile; ++j) {
    const float w = __shfl_sync(0xffffffffU, weight, j);
#pragma unroll
    for (int c = 0; c < kDimsOfPart<kDims>; ++c)
      if (lane + 32 * c < dims) sums[part * 4 + c] = fmaf(w, tile[j * kPitch + lane + 32 * c], sums[part * 4 + c]);
  }
}

/// A lane's dimensions of one row.
template <int kDims>
__device__ inline void write_row(const Tensor4& t, std::int64_t b, std::int64_t h, std::int64_t row, int lane, int dim,
                                 const float (&values)[kDims]) {
#pragma unroll
  for (int c = 0; c < kDims; ++c)
    if (lane + 32 * c < dim) t.write(b, h, row, lane + 32 * c, values[c]);
}

/// The dimensions of one part of a head.
__device__ inline int dims_of(int part, int dim) {
  return min(kPart, dim - part * kPart);
}

/// One step of a row's online softmax: `score`, that of the lane's key, becomes the key's weight; the row's largest
/// score, sum of weights and output so far are brought to the new largest.
template <int kDims>
__device__ inline void weigh_online(float& score, float& largest, float& sum, float (&out)[kDims], float scale,
                                    bool seen) {
  const float scaled = seen ? scale * score : -INFINITY;
  const float top = fmaxf(largest, warp_max(scaled));
  const float kept = top == -INFINITY ? 1.0F : expf(largest - top);
  score = seen ? expf(scaled - top) : 0.0F;
  largest = top;
  sum = sum * kept + warp_sum(score);
#pragma unroll
  for (int c = 0; c < kDims; ++c) out[c] *= kept;
}

template <int kDims, int kRows>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* q_rows = memory;
  float* tile = q_rows + kWarps * kRows * pitch;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.heads;
  const std::int64_t h = blockIdx.y % p.heads;
  const std::int64_t kv = h / (p.heads / p.kv_heads);
  const int first = static_cast<int>(blockIdx.x) * kWarps * kRows;
  load_rows(q_rows, pitch, p.q, b, h, first, kWarps * kRows, p.queries, 0, p.dim);
  float largest[kRows], sum[kRows], out[kRows][kDims];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    largest[r] = -INFINITY;
    sum[r] = 0;
#pragma unroll
    for (int c = 0; c < kDims; ++c) out[r][c] = 0;
  }
  const int end = p.causal ? min(p.keys, first + kWarps * kRows) : p.keys;
  for (int key = 0; key < end; key += kTile) {
    float score[kRows] = {};
    for (int part = 0; part * kPart < p.dim; ++part) {
      __syncthreads();
      load_rows(tile, kPitch, p.k, b, kv, key, kTile, p.keys, part * kPart, dims_of(part, p.dim));
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        score[r] += dot(q_rows + (warp * kRows + r) * pitch + part * kPart, tile + lane * kPitch, dims_of(part, p.dim));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int query = first + warp * kRows + r;
      const bool seen = key + lane < p.keys && (!p.causal || key + lane <= query);
      weigh_online(score[r], largest[r], sum[r], out[r], p.scale, seen);
    }
#pragma unroll
    for (int part = 0; part < kParts<kDims>; ++part) {
      if (part * kPart >= p.dim) break;
      __syncthreads();
      load_rows(tile, kPitch, p.v, b, kv, key, kTile, p.keys, part * kPart, dims_of(part, p.dim));
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kRows; ++r) gather_part<kDims>(out[r], part, score[r], tile, lane, dims_of(part, p.dim));
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int query = first + warp * kRows + r;
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

/// Of one query and one key: q·k becomes the probability P, and d_out·v the gradient of q·k, P × (d_out·v − delta) ×
/// scale; both 0 where the query does not see the key.
__device__ inline void weigh(const Params& p, int query, int key, float norm, float delta, float& score,
                             float& product) {
  const bool seen = query < p.queries && key < p.keys && (!p.causal || key <= query);
  score = seen ? expf(p.scale * score - norm) : 0.0F;
  product = seen ? score * (product - delta) * p.scale : 0.0F;
}

/// Two tiles at once: the same part of the same rows of two tensors, q and d_out or k and v.
struct TilePair {
  float* first;
  float* second;

  __device__ void load(const Tensor4& a, const Tensor4& c, std::int64_t b, std::int64_t h, int row, int length,
                       int part, int dims) const {
    __syncthreads();
    load_rows(first, kPitch, a, b, h, row, kTile, length, part * kPart, dims);
    load_rows(second, kPitch, c, b, h, row, kTile, length, part * kPart, dims);
    __syncthreads();
  }
};

/// Two dot products of each of the warp's rows with the lane's row of a tile, over the dimensions of one part.
template <int kRows>
__device__ inline void add_dots(float (&first)[kRows], float (&second)[kRows], const float* first_rows,
                                const float* second_rows, int pitch, const TilePair& tiles, int lane, int dims) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    first[r] += dot(first_rows + r * pitch, tiles.first + lane * kPitch, dims);
    second[r] += dot(second_rows + r * pitch, tiles.second + lane * kPitch, dims);
  }
}

template <int kDims, int kRows>
__global__ void __launch_bounds__(kThreads) query_gradients(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* q_rows = memory;
  float* d_rows = q_rows + kWarps * kRows * pitch;
  float* k_tile = d_rows + kWarps * kRows * pitch;
  const TilePair tiles{k_tile, k_tile + kTile * kPitch};
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.heads;
  const std::int64_t h = blockIdx.y % p.heads;
  const std::int64_t kv = h / (p.heads / p.kv_heads);
  const int first = static_cast<int>(blockIdx.x) * kWarps * kRows;
  load_rows(q_rows, pitch, p.q, b, h, first, kWarps * kRows, p.queries, 0, p.dim);
  load_rows(d_rows, pitch, p.d_out, b, h, first, kWarps * kRows, p.queries, 0, p.dim);
  float norm[kRows], delta[kRows], dq[kRows][kDims];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int query = min(first + warp * kRows + r, p.queries - 1);
    norm[r] = p.logsumexp.read(b, h, query, 0);
    delta[r] = p.delta[static_cast<std::int64_t>(blockIdx.y) * p.queries + query];
#pragma unroll
    for (int c = 0; c < kDims; ++c) dq[r][c] = 0;
  }
  const int end = p.causal ? min(p.keys, first + kWarps * kRows) : p.keys;
  for (int key = 0; key < end; key += kTile) {
    float score[kRows] = {};
    float product[kRows] = {};
    for (int part = 0; part * kPart < p.dim; ++part) {
      const int dims = dims_of(part, p.dim);
      tiles.load(p.k, p.v, b, kv, key, p.keys, part, dims);
      const int row = warp * kRows * pitch + part * kPart;
      add_dots(score, product, q_rows + row, d_rows + row, pitch, tiles, lane, dims);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      weigh(p, first + warp * kRows + r, key + lane, norm[r], delta[r], score[r], product[r]);
#pragma unroll
    for (int part = 0; part < kParts<kDims>; ++part) {
      if (part * kPart >= p.dim) break;
      if (p.dim > kPart) {  // else the keys are still there
        __syncthreads();
        load_rows(k_tile, kPitch, p.k, b, kv, key, kTile, p.keys, part * kPart, dims_of(part, p.dim));
        __syncthreads();
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) gather_part<kDims>(dq[r], part, product[r], k_tile, lane, dims_of(part, p.dim));
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int query = first + warp * kRows + r;
    if (query >= p.queries) break;
    write_row(p.dq, b, h, query, lane, p.dim, dq[r]);
  }
}

/// The keys' and values' gradients: the queries of every head of the keys' group pass by, a lane one of them.
template <int kDims, int kRows>
__global__ void __launch_bounds__(kThreads) key_gradients(const __grid_constant__ Params p) {
  extern __shared__ float memory[];
  const int pitch = p.dim + 1;
  float* k_rows = memory;
  float* v_rows = k_rows + kWarps * kRows * pitch;
  float* q_tile = v_rows + kWarps * kRows * pitch;
  const TilePair tiles{q_tile, q_tile + kTile * kPitch};
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t b = blockIdx.y / p.kv_heads;
  const std::int64_t kv = blockIdx.y % p.kv_heads;
  const int group = p.heads / p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) * kWarps * kRows;
  load_rows(k_rows, pitch, p.k, b, kv, first, kWarps * kRows, p.keys, 0, p.dim);
  load_rows(v_rows, pitch, p.v, b, kv, first, kWarps * kRows, p.keys, 0, p.dim);
  float dk[kRows][kDims] = {};
  float dv[kRows][kDims] = {};
  const int begin = p.causal ? first / kTile * kTile : 0;
  for (int member = 0; member < group; ++member) {
    const std::int64_t h = kv * group + member;
    const float* deltas = p.delta + (b * p.heads + h) * p.queries;
    for (int tile = begin; tile < p.queries; tile += kTile) {
      float weight[kRows] = {};
      float ds[kRows] = {};
      for (int part = 0; part * kPart < p.dim; ++part) {
        const int dims = dims_of(part, p.dim);
        tiles.load(p.q, p.d_out, b, h, tile, p.queries, part, dims);
        const int row = warp * kRows * pitch + part * kPart;
        add_dots(weight, ds, k_rows + row, v_rows + row, pitch, tiles, lane, dims);
      }
      const int query = tile + lane;
      const bool inside = query < p.queries;
      const float norm = inside ? p.logsumexp.read(b, h, query, 0) : 0.0F;
      const float delta = inside ? deltas[query] : 0.0F;
#pragma unroll
      for (int r = 0; r < kRows; ++r) weigh(p, query, first + warp * kRows + r, norm, delta, weight[r], ds[r]);
#pragma unroll
      for (int part = 0; part < kParts<kDims>; ++part) {
        const int dims = dims_of(part, p.dim);
        if (part * kPart >= p.dim) break;
        if (p.dim > kPart) tiles.load(p.q, p.d_out, b, h, tile, p.queries, part, dims);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          gather_part<kDims>(dv[r], part, weight[r], tiles.second, lane, dims);
          gather_part<kDims>(dk[r], part, ds[r], tiles.first, lane, dims);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int key = first + warp * kRows + r;
    if (key >= p.keys) break;
    write_row(p.dk, b, kv, key, lane, p.dim, dk[r]);
    write_row(p.dv, b, kv, key, lane, p.dim, dv[r]);
  }
}

Tensor4 tensor(const Argument& a) {
  Tensor4 t{a.data, a.dtype(), {}};
  for (std::size_t d = 0; d < std::min<std::size_t>(a.rank(), 4); ++d)
    t.strides[d] = static_cast<std::int64_t>(a.view->strides[d]);
  return t;
}

/// `rows`: whole rows that the block keeps in shared memory; `tiles`: parts of tiles.
template <class Launched>
Result<void> launch(Launched kernel, const Params& p, dim3 grid, int rows, int tiles, cudaStream_t stream,
                    const char* name) {
  const std::size_t floats =
      static_cast<std::size_t>(rows) * (p.dim + 1) + static_cast<std::size_t>(tiles) * kTile * kPitch;
  const std::size_t bytes = floats * sizeof(float);
  if (bytes > 48 * kKiB)
    FORESHARD_TRY(cuda_status(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name));
  kernel<<<grid, kThreads, bytes, stream>>>(p);
  return launched(name);
}

template <int kDims, int kRows>
Result<void> run(const Params& p, std::uint64_t batch, bool backward, cudaStream_t stream) {
  constexpr int kBlock = kWarps * kRows;
  const auto query_heads = static_cast<unsigned>(batch * p.heads);
  const dim3 queries(static_cast<unsigned>(ceil_div(p.queries, kBlock)), query_heads);
  if (!backward) return launch(attend<kDims, kRows>, p, queries, kBlock, 1, stream, "attention");
  row_deltas<<<dim3(static_cast<unsigned>(ceil_div(p.queries, kWarps)), query_heads), kThreads, 0, stream>>>(p);
  FORESHARD_TRY(launched("attention_backward"));
  FORESHARD_TRY(launch(query_gradients<kDims, kRows>, p, queries, 2 * kBlock, 2, stream, "attention_backward"));
  const dim3 keys(static_cast<unsigned>(ceil_div(p.keys, kBlock)), static_cast<unsigned>(batch * p.kv_heads));
  return launch(key_gradients<kDims, kRows>, p, keys, 2 * kBlock, 2, stream, "attention_backward");
}

}  // namespace

Result<void> run_plain_attention(const Arguments& args, Workspace& workspace) {
  const bool backward = args.kernel.op == KernelOp::attention_backward;
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
  p.scale = static_cast<float>(args.kernel.alpha);
  p.causal = args.kernel.causal;
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
    FORESHARD_TRY(scratch);
    p.delta = static_cast<float*>(*scratch);
  }
  if (p.dim <= 32) return run<1, 4>(p, batch, backward, args.stream);
  if (p.dim <= 64) return run<2, 4>(p, batch, backward, args.stream);
  if (p.dim <= 128) return run<4, 4>(p, batch, backward, args.stream);
  if (p.dim <= 256) return run<8, 2>(p, batch, backward, args.stream);
  if (p.dim <= 1024) return run<32, 1>(p, batch, backward, args.stream);
  return bad_operand("attention", first, "has a head dimension beyond 1024");
}

}  // namespace foreshard::gpu
