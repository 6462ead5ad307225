// Elements on the device: reading any dtype as float (or double), writing it rounded once to nearest even, one by one
// or eight at a time through 16-byte accesses.
//
// The dtype is a run-time argument: it is the same for every thread, so the branch costs a few instructions a group of
// eight, and each kernel exists once instead of once a combination of dtypes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/base/dtype.hpp"

namespace foreshard::gpu {

inline constexpr int kGroup = 8;  ///< elements that a thread moves at once

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
__device__ inline float widen(std::uint32_t bits, DType dtype) {
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

/// Eight elements as they lie in memory: 32, 16 or 8 bytes of it are used.
struct Raw8 {
  uint4 low;
  uint4 high;
};

/// Eight elements from `index` on, which lie on a boundary of 16 bytes (8 bytes for uint8 and bool8). Only loads: what
/// is done with the bytes comes later, so that a thread's loads do not wait for each other.
__device__ inline Raw8 load8(const void* base, std::int64_t index, DType dtype) {
  Raw8 raw;
  if (dtype == DType::float32) {
    const uint4* p = reinterpret_cast<const uint4*>(static_cast<const float*>(base) + index);
    raw.low = p[0];
    raw.high = p[1];
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
    raw.low = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(base) + index);
  } else {
    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const std::uint8_t*>(base) + index);
    raw.low.x = v.x;
    raw.low.y = v.y;
  }
  return raw;
}

__device__ inline void expand8(float (&out)[kGroup], const Raw8& raw, DType dtype) {
  if (dtype == DType::float32) {
    out[0] = __uint_as_float(raw.low.x), out[1] = __uint_as_float(raw.low.y);
    out[2] = __uint_as_float(raw.low.z), out[3] = __uint_as_float(raw.low.w);
    out[4] = __uint_as_float(raw.high.x), out[5] = __uint_as_float(raw.high.y);
    out[6] = __uint_as_float(raw.high.z), out[7] = __uint_as_float(raw.high.w);
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
    out[0] = widen(raw.low.x & 0xffffU, dtype), out[1] = widen(raw.low.x >> 16U, dtype);
    out[2] = widen(raw.low.y & 0xffffU, dtype), out[3] = widen(raw.low.y >> 16U, dtype);
    out[4] = widen(raw.low.z & 0xffffU, dtype), out[5] = widen(raw.low.z >> 16U, dtype);
    out[6] = widen(raw.low.w & 0xffffU, dtype), out[7] = widen(raw.low.w >> 16U, dtype);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = static_cast<float>((raw.low.x >> (8 * i)) & 0xffU);
      out[4 + i] = static_cast<float>((raw.low.y >> (8 * i)) & 0xffU);
    }
  }
}

__device__ inline void read8(float (&out)[kGroup], const void* base, std::int64_t index, DType dtype) {
  expand8(out, load8(base, index, dtype), dtype);
}

__device__ inline void write8(void* base, std::int64_t index, DType dtype, const float (&in)[kGroup]) {
  if (dtype == DType::float32) {
    float4* p = reinterpret_cast<float4*>(static_cast<float*>(base) + index);
    p[0] = make_float4(in[0], in[1], in[2], in[3]);
    p[1] = make_float4(in[4], in[5], in[6], in[7]);
  } else if (dtype == DType::bfloat16 || dtype == DType::float16) {
    *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(base) + index) = make_uint4(
        pack(in[0], in[1], dtype), pack(in[2], in[3], dtype), pack(in[4], in[5], dtype), pack(in[6], in[7], dtype));
  } else {
    const bool truth = dtype == DType::bool8;
    uint2 v = make_uint2(0, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.x |= (truth ? static_cast<std::uint32_t>(in[i] != 0) : static_cast<std::uint32_t>(in[i])) << (8 * i);
      v.y |= (truth ? static_cast<std::uint32_t>(in[4 + i] != 0) : static_cast<std::uint32_t>(in[4 + i])) << (8 * i);
    }
    *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(base) + index) = v;
  }
}

/// Eight elements of a row, or (not kVector: rows without boundaries) those of them before its end, `left` elements on.
template <bool kVector>
__device__ inline void read_some(float (&out)[kGroup], const void* base, std::int64_t index, std::uint32_t left,
                                 DType dtype, float otherwise = 0) {
  if constexpr (kVector) {
    read8(out, base, index, dtype);
  } else {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) out[k] = k < left ? read<float>(base, index + k, dtype) : otherwise;
  }
}
template <bool kVector>
__device__ inline void write_some(void* base, std::int64_t index, std::uint32_t left, DType dtype,
                                  const float (&in)[kGroup]) {
  if constexpr (kVector) {
    write8(base, index, dtype, in);
  } else {
#pragma unroll
    for (int k = 0; k < kGroup; ++k)
      if (k < left) write<float>(base, index + k, dtype, in[k]);
  }
}

}  // namespace element

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

__device__ inline float block_sum(float value, float* shared) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += shared[i];
  __syncthreads();
  return sum;
}
__device__ inline float block_max(float value, float* shared) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = shared[0];
  for (int i = 1; i < warps; ++i) largest = fmaxf(largest, shared[i]);
  __syncthreads();
  return largest;
}

}  // namespace foreshard::gpu
