// shard_amaxes: each block walks a chunk of one shard and meets the others of that shard in one atomicMax.
//
// copy_in_float8: each block casts a chunk of one shard into its place, behind the shard's end zeros. Four elements a
// thread at once, so that reads and writes of a warp lie side by side.
#include "gpu/kernels/element.cuh"
#include "gpu/kernels/float8.cuh"
#include "gpu/kernels/float8_weights.hpp"
#include "gpu/kernels/multi_tensor.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr int kGroupsAThread = 8;
constexpr std::uint32_t kChunk = kThreads * kWidth * kGroupsAThread;  ///< elements of a block

__device__ inline float as_bfloat16(float x) {
  return __bfloat162float(__float2bfloat16_rn(x));
}

/// Whether groups of kWidth elements from `index` on lie on boundaries of their size.
__device__ inline bool on_boundary(const void* base, std::uint64_t index, std::uint32_t size) {
  return (reinterpret_cast<std::uintptr_t>(base) + index * size) % (kWidth * size) == 0;
}

struct Shard {
  const void* data;
  float* amax;
  std::uint64_t numel;
  std::uint32_t chunks_before;
  DType dtype;
};

template <int kEntries>
struct ShardTable {
  std::uint32_t entries;
  Shard entry[kEntries];
};

template <int kEntries>
__global__ void __launch_bounds__(kThreads) find_amaxes(const __grid_constant__ ShardTable<kEntries> table) {
  __shared__ std::uint32_t shared[kThreads / 32];
  const Shard& s = entry_of(table.entry, table.entries, blockIdx.x);
  const std::uint64_t begin = static_cast<std::uint64_t>(blockIdx.x - s.chunks_before) * kChunk;
  const std::uint64_t length = min(s.numel - begin, static_cast<std::uint64_t>(kChunk));
  std::uint32_t largest = 0;
  std::uint64_t done = 0;
  if (on_boundary(s.data, begin, s.dtype == DType::float32 ? 4 : 2)) {
    const auto groups = static_cast<std::uint32_t>(length / kWidth);
    element::Raw raw[kGroupsAThread];
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group < groups) raw[i] = element::load<kWidth>(s.data, begin + group * kWidth, s.dtype);
    }
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      if (i * kThreads + threadIdx.x >= groups) break;
      float v[kWidth];
      element::expand(v, raw[i], s.dtype);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) largest = max(largest, __float_as_uint(v[k]) & float8::kMagnitude);
    }
    done = static_cast<std::uint64_t>(groups) * kWidth;
  }
  for (std::uint64_t i = done + threadIdx.x; i < length; i += kThreads)
    largest = max(largest, __float_as_uint(element::read<float>(s.data, begin + i, s.dtype)) & float8::kMagnitude);
  largest = __reduce_max_sync(0xffffffffU, largest);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint32_t value : shared) largest = max(largest, value);
  // The largest rounded is the largest of the rounded ones.
  const float rounded = as_bfloat16(__uint_as_float(largest));
  atomicMax(reinterpret_cast<std::uint32_t*>(s.amax), __float_as_uint(rounded) & float8::kMagnitude);
}

/// A shard and its place, whose elements `numel` counts.
struct Place {
  void* to;
  const void* from;
  const float* amax;  ///< null: the place is no float8
  float* scale;
  std::uint64_t numel;
  std::uint64_t of_shard;  ///< elements of the shard
  std::uint32_t chunks_before;
  DType to_dtype;
  DType from_dtype;
};

template <int kEntries>
struct PlaceTable {
  std::uint32_t entries;
  Place entry[kEntries];
};
static_assert(sizeof(PlaceTable<kManyEntries>) <= 32764);

/// Four elements of the shard, as they lie in the place.
__device__ inline void write(const Place& p, std::uint64_t index, float (&v)[kWidth], float scale) {
  if (p.amax == nullptr) {
    element::write_group(p.to, static_cast<std::int64_t>(index), p.to_dtype, v);
    return;
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k) v[k] = as_bfloat16(v[k]);
  std::uint32_t word[1];
  float8::cast<__NV_E4M3>(word, v, scale);
  *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(p.to) + index) = word[0];
}

__device__ inline void write_one(const Place& p, std::uint64_t index, float value, float scale) {
  if (p.amax == nullptr) {
    element::write<float>(p.to, static_cast<std::int64_t>(index), p.to_dtype, value);
    return;
  }
  const float scaled = __fmul_rn(as_bfloat16(value), scale);
  static_cast<std::uint8_t*>(p.to)[index] = __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, __NV_E4M3);
}

template <int kEntries>
__global__ void __launch_bounds__(kThreads) cast_shards(const __grid_constant__ PlaceTable<kEntries> table) {
  const Place& p = entry_of(table.entry, table.entries, blockIdx.x);
  const std::uint32_t chunk = blockIdx.x - p.chunks_before;
  const std::uint64_t begin = static_cast<std::uint64_t>(chunk) * kChunk;
  const std::uint64_t length = min(p.numel - begin, static_cast<std::uint64_t>(kChunk));
  const std::uint64_t valid = min(p.of_shard > begin ? p.of_shard - begin : 0, length);
  const float scale = p.amax == nullptr ? 1.0F : float8::scale_of<__NV_E4M3>(*p.amax);
  if (p.amax != nullptr && chunk == 0 && threadIdx.x == 0) *p.scale = __fdiv_rn(1.0F, scale);
  std::uint64_t done = 0;
  const std::uint32_t to_size = p.amax != nullptr ? 1 : p.to_dtype == DType::float32 ? 4 : 2;
  const std::uint32_t from_size = p.from_dtype == DType::float32 ? 4 : 2;
  if (on_boundary(p.to, begin, to_size) && on_boundary(p.from, begin, from_size)) {
    const auto groups = static_cast<std::uint32_t>(valid / kWidth);
    element::Raw raw[kGroupsAThread];
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group < groups) raw[i] = element::load<kWidth>(p.from, begin + group * kWidth, p.from_dtype);
    }
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group >= groups) break;
      float v[kWidth];
      element::expand(v, raw[i], p.from_dtype);
      write(p, begin + group * kWidth, v, scale);
    }
    done = static_cast<std::uint64_t>(groups) * kWidth;
  }
  for (std::uint64_t i = done + threadIdx.x; i < length; i += kThreads)
    write_one(p, begin + i,
              i < valid ? element::read<float>(p.from, static_cast<std::int64_t>(begin + i), p.from_dtype) : 0.0F,
              scale);
}

/// One float32 of each weight.
bool numbers(const Argument& x, std::uint64_t count) {
  return x.present() && x.dtype() == DType::float32 && x.rank() == 1 && x.numel() == count;
}

template <class T>
T* number_of(const Argument& x, std::size_t weight) {
  return static_cast<T*>(x.data) + weight * x.view->strides[0];
}

bool is_shard(const Argument& x) {
  return !x.present() || (is_float_up_to_32(x.dtype()) && x.contiguous());
}

template <int kEntries>
Result<void> find(const Arguments& args, std::size_t shards) {
  ShardTable<kEntries> table;
  const auto fill = [&](Shard& entry, std::size_t i) -> Result<void> {
    const Argument shard = args[1 + i];
    if (!is_shard(shard)) return bad_operand("shard_amaxes", 1 + i, "is no contiguous float32, bfloat16 or float16");
    if (!shard.present()) return {};
    float* amax = static_cast<float*>(args[0].data) + i;
    entry = {shard.data, amax, shard.numel(), 0, shard.dtype()};
    return {};
  };
  return put_in_tables<kEntries>(table, shards, kChunk, "shard_amaxes", fill, [&](std::uint32_t blocks) {
    find_amaxes<<<blocks, kThreads, 0, args.stream>>>(table);
  });
}

template <int kEntries>
Result<void> cast(const Arguments& args, std::size_t shards) {
  PlaceTable<kEntries> table;
  std::size_t narrow = 0;
  const auto fill = [&](Place& entry, std::size_t i) -> Result<void> {
    const Argument place = args[i];
    const Argument shard = args[shards + 1 + i];
    const bool casts = place.dtype() == DType::float8_e4m3fn;
    if (!place.present() || !place.contiguous() || (!casts && !is_float_up_to_32(place.dtype())))
      return bad_operand("copy_in_float8", i, "is no contiguous float8_e4m3fn, float32, bfloat16 or float16");
    if (!is_shard(shard))
      return bad_operand("copy_in_float8", shards + 1 + i, "is no contiguous float32, bfloat16 or float16");
    const std::uint64_t of_shard = shard.present() ? shard.numel() : 0;
    if (of_shard > place.numel()) return bad_operand("copy_in_float8", shards + 1 + i, "is larger than its place");
    entry = {place.data, shard.data, nullptr, nullptr, place.numel(), of_shard, 0, place.dtype(), shard.dtype()};
    if (!casts) return {};
    entry.amax = number_of<const float>(args[2 * shards + 1], narrow);
    entry.scale = number_of<float>(args[shards], narrow);
    ++narrow;
    return {};
  };
  return put_in_tables<kEntries>(table, shards, kChunk, "copy_in_float8", fill, [&](std::uint32_t blocks) {
    cast_shards<<<blocks, kThreads, 0, args.stream>>>(table);
  });
}

}  // namespace

Result<void> run_shard_amaxes(const Arguments& args) {
  if (args.count() < 2) return bad_operand("shard_amaxes", 1, "is missing");
  const std::size_t shards = args.count() - 1;
  if (!numbers(args[0], shards) || !args[0].contiguous())
    return bad_operand("shard_amaxes", 0, "is not one float32 a shard");
  FORESHARD_TRY(cuda_status(cudaMemsetAsync(args[0].data, 0, shards * sizeof(float), args.stream), "shard_amaxes"));
  return shards <= kFewEntries ? find<kFewEntries>(args, shards) : find<kManyEntries>(args, shards);
}

Result<void> run_copy_in_float8(const Arguments& args) {
  if (args.count() < 4 || args.count() % 2 != 0) return bad_operand("copy_in_float8", args.count(), "is missing");
  const std::size_t shards = args.count() / 2 - 1;
  std::uint64_t casts = 0;
  for (std::size_t i = 0; i < shards; ++i) casts += args[i].dtype() == DType::float8_e4m3fn ? 1 : 0;
  for (const std::size_t i : {shards, 2 * shards + 1})
    if (!numbers(args[i], casts)) return bad_operand("copy_in_float8", i, "is not one float32 a place in float8");
  return shards <= kFewEntries ? cast<kFewEntries>(args, shards) : cast<kManyEntries>(args, shards);
}

}  // namespace foreshard::gpu
