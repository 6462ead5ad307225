// amax: blocks walk the tensor in groups of 16 bytes and meet in one atomicMax. The bits of numbers without a sign
// order as whole numbers do, and NaN's are above all others', so that a NaN is the largest element.
//
// cast_float8, and transpose_float8 of what is cast already: a block casts a tile of 128 × 128. A thread reads 4 rows
// of 8 elements, writes them out as they lie, and turns each 4 × 4 bytes in registers, so that shared memory takes
// words and the transposed tile leaves in rows of 128 bytes.
#include <algorithm>

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/float8.cuh"
#include "gpu/kernels/float8.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 8;  ///< elements of 16 bits in 16 bytes
constexpr std::uint64_t kMultiple = 16;

__global__ void __launch_bounds__(kThreads)
    find_amax(std::uint32_t* out, const void* x, DType dtype, std::uint64_t count) {
  __shared__ std::uint32_t shared[kThreads / 32];
  std::uint32_t largest = 0;
  const std::uint64_t groups = count / kGroup;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  const std::uint64_t first = blockIdx.x * static_cast<std::uint64_t>(kThreads) + threadIdx.x;
#pragma unroll 4
  for (std::uint64_t i = first; i < groups; i += stride) {
    float v[kGroup];
    element::read_group(v, x, static_cast<std::int64_t>(i * kGroup), dtype);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) largest = max(largest, __float_as_uint(v[k]) & float8::kMagnitude);
  }
  for (std::uint64_t i = groups * kGroup + first; i < count; i += stride)
    largest = max(largest,
                  __float_as_uint(element::read<float>(x, static_cast<std::int64_t>(i), dtype)) & float8::kMagnitude);
  largest = __reduce_max_sync(0xffffffffU, largest);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint32_t value : shared) largest = max(largest, value);
  atomicMax(out, largest);
}

constexpr int kTile = 128;         ///< rows and columns of a block
constexpr int kWords = kTile / 4;  ///< of a transposed row, each of 4 elements
constexpr int kRowsAThread = 4;    ///< one word of each transposed row
constexpr int kRowsAWarp = 16;     ///< 4 threads of 4 rows …
constexpr int kColumnsAWarp = 64;  ///< … by 8 threads of 8 columns

struct CastParams {
  const void* x = nullptr;
  DType dtype = DType::bfloat16;
  const float* amax = nullptr;
  std::uint8_t* plain = nullptr;       ///< null: not wanted
  std::uint8_t* transposed = nullptr;  ///< null: not wanted
  float* scale = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
};

/// What a tile is made of: numbers that are cast, or float8 as it is.
enum class Source : std::uint8_t { to_e4m3, to_e5m2, float8 };

constexpr float8::Format format_of(Source source) {
  return source == Source::to_e5m2 ? __NV_E5M2 : __NV_E4M3;
}

/// 8 elements in float8: the first four in x.
template <Source kSource>
__device__ inline uint2 group_of(const CastParams& p, std::int64_t at, float scale) {
  if constexpr (kSource == Source::float8) {
    return *reinterpret_cast<const uint2*>(static_cast<const std::uint8_t*>(p.x) + at);
  } else {
    float v[kGroup];
    element::read_group(v, p.x, at, p.dtype);
    std::uint32_t words[2];
    float8::cast<format_of(kSource)>(words, v, scale);
    return make_uint2(words[0], words[1]);
  }
}

/// Four rows of 4 bytes as four columns of 4 bytes.
__device__ inline void turn(std::uint32_t (&out)[4], std::uint32_t a, std::uint32_t b, std::uint32_t c,
                            std::uint32_t d) {
  const std::uint32_t ab_low = __byte_perm(a, b, 0x5140);
  const std::uint32_t cd_low = __byte_perm(c, d, 0x5140);
  const std::uint32_t ab_high = __byte_perm(a, b, 0x7362);
  const std::uint32_t cd_high = __byte_perm(c, d, 0x7362);
  out[0] = __byte_perm(ab_low, cd_low, 0x5410);
  out[1] = __byte_perm(ab_low, cd_low, 0x7632);
  out[2] = __byte_perm(ab_high, cd_high, 0x5410);
  out[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

/// Where the word of 4 rows (number `word`) of a column lies: four neighbouring words stay together, and change places
/// with the eighth of the columns, so that the threads of a warp meet all banks.
__device__ inline int place(int column, int word) {
  return column * kWords + ((word / 4) ^ (column / kGroup % 8)) * 4 + word % 4;
}

template <Source kSource>
__global__ void __launch_bounds__(kThreads) cast_tile(const __grid_constant__ CastParams p) {
  __shared__ __align__(16) std::uint32_t turned[kTile * kWords];
  float scale = 1;
  if constexpr (kSource != Source::float8) {
    scale = float8::scale_of<format_of(kSource)>(*p.amax);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *p.scale = __fdiv_rn(1.0F, scale);
  }
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t first_row = blockIdx.y * kTile;
  const std::uint32_t first_column = blockIdx.x * kTile;
#pragma unroll
  for (int half = 0; half < kTile / kColumnsAWarp; ++half) {
    const int row = warp * kRowsAWarp + lane / 8 * kRowsAThread;
    const int column = half * kColumnsAWarp + lane % 8 * kGroup;
    if (first_row + row >= p.rows || first_column + column >= p.columns) continue;  // extents are multiples of 16
    uint2 cast[kRowsAThread];
#pragma unroll
    for (int r = 0; r < kRowsAThread; ++r) {
      const std::int64_t at = static_cast<std::int64_t>(first_row + row + r) * p.columns + first_column + column;
      cast[r] = group_of<kSource>(p, at, scale);
      if (p.plain != nullptr) *reinterpret_cast<uint2*>(p.plain + at) = cast[r];
    }
    if (p.transposed == nullptr) continue;
    std::uint32_t columns[4];
    turn(columns, cast[0].x, cast[1].x, cast[2].x, cast[3].x);
#pragma unroll
    for (int k = 0; k < 4; ++k) turned[place(column + k, row / 4)] = columns[k];
    turn(columns, cast[0].y, cast[1].y, cast[2].y, cast[3].y);
#pragma unroll
    for (int k = 0; k < 4; ++k) turned[place(column + 4 + k, row / 4)] = columns[k];
  }
  if (p.transposed == nullptr) return;
  __syncthreads();
  constexpr int kGroups = kTile / 16;  // of 16 bytes in a transposed row
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kGroups; i += kThreads) {
    const int column = i / kGroups;
    const int row = i % kGroups * 16;
    if (first_row + row >= p.rows || first_column + column >= p.columns) continue;
    const std::int64_t at = static_cast<std::int64_t>(first_column + column) * p.rows + first_row + row;
    *reinterpret_cast<uint4*>(p.transposed + at) = *reinterpret_cast<const uint4*>(&turned[place(column, row / 4)]);
  }
}

bool is_narrow(const Argument& x) {
  return x.dtype() == DType::bfloat16 || x.dtype() == DType::float16;
}

dim3 tiles_of(std::uint64_t rows, std::uint64_t columns) {
  return {static_cast<unsigned>(ceil_div(columns, kTile)), static_cast<unsigned>(ceil_div(rows, kTile))};
}

/// Of the matrix that is cast or turned.
Result<void> check_extents(const char* name, std::size_t operand, const Argument& x) {
  if (x.size(0) % kMultiple != 0 || x.size(1) % kMultiple != 0)
    return bad_operand(name, operand, "has an extent that is no multiple of 16");
  if (x.size(0) > 0x7fff0000U || x.size(1) > 0x7fff0000U) return bad_operand(name, operand, "is too large");
  if (ceil_div(x.size(0), kTile) > 65535) return bad_operand(name, operand, "has too many rows");
  return {};
}

/// A float8 output of a cast.
Result<void> check_output(const Argument& out, std::size_t operand, std::uint64_t rows, std::uint64_t columns) {
  if (!out.present()) return {};
  if (!is_float8(out.dtype())) return bad_operand("cast_float8", operand, "is not float8");
  if (out.rank() != 2 || out.size(0) != rows || out.size(1) != columns || !out.contiguous() || !out.aligned(16))
    return bad_operand("cast_float8", operand, "is not x's shape, or its transpose, without gaps");
  return {};
}

}  // namespace

Result<void> run_amax(const Arguments& args) {
  const Argument out = args[0];
  const Argument x = args[1];
  if (!out.present() || out.dtype() != DType::float32 || out.numel() != 1)
    return bad_operand("amax", 0, "is not one float32");
  if (!x.present() || !is_narrow(x) || !x.contiguous() || !x.aligned(16))
    return bad_operand("amax", 1, "is not bfloat16 or float16 without gaps");
  FORESHARD_TRY(cuda_status(cudaMemsetAsync(out.data, 0, sizeof(float), args.stream), "amax"));
  constexpr std::uint64_t kGroupsAThread = 8;
  constexpr std::uint64_t kMaxBlocks = 1056;  // eight to each of 132 SMs
  const std::uint64_t blocks = ceil_div(x.numel(), kThreads * kGroup * kGroupsAThread);
  if (blocks == 0) return {};
  find_amax<<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), kThreads, 0, args.stream>>>(
      static_cast<std::uint32_t*>(out.data), x.data, x.dtype(), x.numel());
  return launched("amax");
}

Result<void> run_cast_float8(const Arguments& args) {
  const Argument plain = args[0];
  const Argument transposed = args[1];
  const Argument scale = args[2];
  const Argument x = args[3];
  const Argument amax = args[4];
  if (!x.present() || !is_narrow(x) || x.rank() != 2 || !x.contiguous() || !x.aligned(16))
    return bad_operand("cast_float8", 3, "is not a bfloat16 or float16 matrix without gaps");
  const std::uint64_t rows = x.size(0);
  const std::uint64_t columns = x.size(1);
  FORESHARD_TRY(check_extents("cast_float8", 3, x));
  FORESHARD_TRY(check_output(plain, 0, rows, columns));
  FORESHARD_TRY(check_output(transposed, 1, columns, rows));
  if (!plain.present() && !transposed.present()) return bad_operand("cast_float8", 0, "is absent, and so is operand 1");
  for (const std::size_t one : {std::size_t{2}, std::size_t{4}})
    if (!args[one].present() || args[one].dtype() != DType::float32 || args[one].numel() != 1)
      return bad_operand("cast_float8", one, "is not one float32");
  const DType dtype = plain.present() ? plain.dtype() : transposed.dtype();
  if (rows == 0 || columns == 0) return {};
  const CastParams p{x.data,
                     x.dtype(),
                     static_cast<const float*>(amax.data),
                     static_cast<std::uint8_t*>(plain.data),
                     static_cast<std::uint8_t*>(transposed.data),
                     static_cast<float*>(scale.data),
                     static_cast<std::uint32_t>(rows),
                     static_cast<std::uint32_t>(columns)};
  const dim3 grid = tiles_of(rows, columns);
  if (dtype == DType::float8_e4m3fn)
    cast_tile<Source::to_e4m3><<<grid, kThreads, 0, args.stream>>>(p);
  else
    cast_tile<Source::to_e5m2><<<grid, kThreads, 0, args.stream>>>(p);
  return launched("cast_float8");
}

Result<void> run_transpose_float8(const Arguments& args) {
  const Argument out = args[0];
  const Argument x = args[1];
  const auto refuse = [](std::size_t operand, const char* what) {
    return bad_operand("transpose_float8", operand, what);
  };
  if (!x.present() || !is_float8(x.dtype()) || x.rank() != 2 || !x.contiguous() || !x.aligned(16))
    return refuse(1, "is not a float8 matrix without gaps");
  FORESHARD_TRY(check_extents("transpose_float8", 1, x));
  const std::uint64_t rows = x.size(0);
  const std::uint64_t columns = x.size(1);
  if (!out.present() || out.dtype() != x.dtype() || out.rank() != 2 || out.size(0) != columns || out.size(1) != rows ||
      !out.contiguous() || !out.aligned(16))
    return refuse(0, "is not the transpose of x without gaps");
  if (rows == 0 || columns == 0) return {};
  CastParams p;
  p.x = x.data;
  p.transposed = static_cast<std::uint8_t*>(out.data);
  p.rows = static_cast<std::uint32_t>(rows);
  p.columns = static_cast<std::uint32_t>(columns);
  cast_tile<Source::float8><<<tiles_of(rows, columns), kThreads, 0, args.stream>>>(p);
  return launched("transpose_float8");
}

}  // namespace foreshard::gpu
