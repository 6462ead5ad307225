// Elements on the device: reading any dtype as float (or double), writing it rounded once to nearest even, one by one
// or in groups through 16-byte accesses.
//
// The dtype is a run-time argument: it is the same for every thread, so the branch costs a few instructions a group,
// and each kernel exists once instead of once a combination of dtypes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/base/dtype.hpp"

namespace foreshard::gpu {

namespace element {

template <class T>
__device__ inline T read(const void* base, std::int64_t index, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return static_cast<T>(static_cast<const float*>(base)[index]);
    case DType::bfloat16:
      return static_cast<T>(__bfloat162float(static_cast<const __nv_bfloat16*>(base)[index]));
    case DType::float16:
      return static_cast<T>(__half2float(static_cast<const __half*>(base)[index]));
    case DType::float64:
      return static_cast<T>(static_cast<const double*>(base)[index]);
    case DType::int64:
      return static_cast<T>(static_cast<const std::int64_t*>(base)[index]);
    case DType::int32:
      return static_cast<T>(static_cast<const std::int32_t*>(base)[index]);
    default:
      return static_cast<T>(static_cast<const std::uint8_t*>(base)[index]);
  }
}

template <class T>
__device__ inline void write(void* base, std::int64_t index, DType dtype, T value) {
  switch (dtype) {
    case DType::float32:
      static_cast<float*>(base)[index] = static_cast<float>(value);
      return;
    case DType::bfloat16:
      static_cast<__nv_bfloat16*>(base)[index] = __float2bfloat16_rn(static_cast<float>(value));
      return;
    case DType::float16:
      static_cast<__half*>(base)[index] = __float2half_rn(static_cast<float>(value));
      return;
    case DType::float64:
      static_cast<double*>(base)[index] = static_cast<double>(value);
      return;
    case DType::int64:
      static_cast<std::int64_t*>(base)[index] = static_cast<std::int64_t>(value);
      return;
    case DType::int32:
      static_cast<std::int32_t*>(base)[index] = static_cast<std::int32_t>(value);
      return;
    case DType::bool8:
      static_cast<std::uint8_t*>(base)[index] = static_cast<std::uint8_t>(value != T{0});
      return;
    default:
      static_cast<std::uint8_t*>(base)[index] = static_cast<std::uint8_t>(value);
      return;
  }
}

/// The 16 bits of an element of a 16-bit dtype.
__device__ inline float upcasts(std::uint32_t bits, DType dtype) {
  if (dtype == DType::bfloat16) return __uint_as_float(bits << 16U);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline std::uint32_t pack(float low, float high, DType dtype) {
  if (dtype == DType::bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// A group of elements as they lie in memory: at most 16 bytes of it are used.
using Raw = uint4;

/// Elements a thread moves at once so that neighbouring threads fill whole sectors with 16-byte accesses: 4 where a
/// tensor of 32-bit elements takes part, else 8.
template <int kWidth>
__device__ inline Raw load(const void* base, std::int64_t index, DType dtype) {
  static_assert(kWidth == 4 || kWidth == 8);
  Raw raw = make_uint4(0, 0, 0, 0);
  if (kWidth == 4 && dtype == DType::float32) {
    raw = *reinterpret_cast<const uint4*>(static_cast<const float*>(base) + index);
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
    const std::uint16_t* p = static_cast<const std::uint16_t*>(base) + index;
    if constexpr (kWidth == 8) {
      raw = *reinterpret_cast<const uint4*>(p);
    } else {
      const uint2 v = *reinterpret_cast<const uint2*>(p);
      raw.x = v.x;
      raw.y = v.y;
    }
  } else {
    const std::uint8_t* p = static_cast<const std::uint8_t*>(base) + index;
    if constexpr (kWidth == 8) {
      const uint2 v = *reinterpret_cast<const uint2*>(p);
      raw.x = v.x;
      raw.y = v.y;
    } else {
      raw.x = *reinterpret_cast<const std::uint32_t*>(p);
    }
  }
  return raw;
}

template <int kWidth>
__device__ inline void store(void* base, std::int64_t index, DType dtype, const Raw& raw) {
  if (kWidth == 4 && dtype == DType::float32) {
    *reinterpret_cast<uint4*>(static_cast<float*>(base) + index) = raw;
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
    std::uint16_t* p = static_cast<std::uint16_t*>(base) + index;
    if constexpr (kWidth == 8)
      *reinterpret_cast<uint4*>(p) = raw;
    else
      *reinterpret_cast<uint2*>(p) = make_uint2(raw.x, raw.y);
  } else {
    std::uint8_t* p = static_cast<std::uint8_t*>(base) + index;
    if constexpr (kWidth == 8)
      *reinterpret_cast<uint2*>(p) = make_uint2(raw.x, raw.y);
    else
      *reinterpret_cast<std::uint32_t*>(p) = raw.x;
  }
}

template <int kWidth>
__device__ inline void expand(float (&out)[kWidth], const Raw& raw, DType dtype) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  if (kWidth == 4 && dtype == DType::float32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(words[i]);
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      out[2 * i] = upcasts(words[i] & 0xffffU, dtype);
      out[2 * i + 1] = upcasts(words[i] >> 16U, dtype);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) out[i] = static_cast<float>((words[i / 4] >> (8 * (i % 4))) & 0xffU);
  }
}

/// Each number rounded once to the dtype.
template <int kWidth>
__device__ inline Raw collapse(const float (&in)[kWidth], DType dtype) {
  std::uint32_t words[4] = {};
  if (kWidth == 4 && dtype == DType::float32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = __float_as_uint(in[i]);
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) words[i] = pack(in[2 * i], in[2 * i + 1], dtype);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const std::uint32_t byte =
          dtype == DType::bool8 ? static_cast<std::uint32_t>(in[i] != 0) : static_cast<std::uint32_t>(in[i]);
      words[i / 4] |= byte << (8 * (i % 4));
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <int kWidth>
__device__ inline void read_group(float (&out)[kWidth], const void* base, std::int64_t index, DType dtype) {
  expand(out, load<kWidth>(base, index, dtype), dtype);
}
template <int kWidth>
__device__ inline void write_group(void* base, std::int64_t index, DType dtype, const float (&in)[kWidth]) {
  store<kWidth>(base, index, dtype, collapse(in, dtype));
}

/// A group of a row; where rows do not begin on boundaries (not kVector) its elements one by one, `otherwise` behind
/// the row's end, which is `left` elements on. Then the group is held as float32, and kWidth is 4.
template <int kWidth, bool kVector>
__device__ inline Raw load_some(const void* base, std::int64_t index, std::uint32_t left, DType dtype,
                                float otherwise = 0) {
  static_assert(kVector || kWidth == 4);
  if constexpr (kVector) {
    return load<kWidth>(base, index, dtype);
  } else {
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = k < left ? read<float>(base, index + k, dtype) : otherwise;
    return collapse(v, DType::float32);
  }
}
/// The dtype in which load_some holds elements of `dtype`.
template <bool kVector>
__device__ inline DType held(DType dtype) {
  return kVector ? dtype : DType::float32;
}
template <int kWidth, bool kVector>
__device__ inline void read_some(float (&out)[kWidth], const void* base, std::int64_t index, std::uint32_t left,
                                 DType dtype, float otherwise = 0) {
  expand(out, load_some<kWidth, kVector>(base, index, left, dtype, otherwise), held<kVector>(dtype));
}
template <int kWidth, bool kVector>
__device__ inline void write_some(void* base, std::int64_t index, std::uint32_t left, DType dtype,
                                  const float (&in)[kWidth]) {
  if constexpr (kVector) {
    write_group(base, index, dtype, in);
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (k < left) write<float>(base, index + k, dtype, in[k]);
  }
}

}  // namespace element

/// How a launcher picks kWidth: 8 unless a float32 tensor takes part.
[[nodiscard]] constexpr int width_with(int width, DType dtype) {
  return itemsize(dtype) == 4 ? 4 : width;
}

/// e^x within a few 1e-7 of its value for |x| below 10 and 2e-6 for |x| below 20: ex2.approx.
__device__ inline float fast_exp(float x) {
  return __expf(x);
}
/// 1 / (1 + e^−x), as good as fast_exp.
__device__ inline float fast_sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + __expf(-x));
}

// Sums and maxima over the threads of a block, in a fixed order; every thread gets the result. `shared` has room for
// one value a warp, and may be used again after the next __syncthreads().
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffU, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  return value;
}

/// Every thread's `shared` is the same memory; a second call needs memory of its own, or a barrier before it.
__device__ inline float block_sum(float value, float* shared) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += shared[i];
  return sum;
}
__device__ inline float2 block_sum(float2 value, float2* shared) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = make_float2(warp_sum(value.x), warp_sum(value.y));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float2 sum = make_float2(0, 0);
  for (int i = 0; i < warps; ++i) sum = make_float2(sum.x + shared[i].x, sum.y + shared[i].y);
  return sum;
}
__device__ inline float block_max(float value, float* shared) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = shared[0];
  for (int i = 1; i < warps; ++i) largest = fmaxf(largest, shared[i]);
  return largest;
}

}  // namespace foreshard::gpu
