// Elements that kernels add: to float32 and back, and the word at system scope that they watch.
//
// Who: reduce_kernel.cu, exchange_kernel.cu. Roundings are CUDA's to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace foreshard::gpu {

__device__ inline std::uint32_t load_system(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

template <class T>
__device__ inline float upcasts(T value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(value);
  else if constexpr (std::is_same_v<T, __half>)
    return __half2float(value);
  else
    return value;
}
template <class T>
__device__ inline T narrow(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else
    return value;
}

/// The elements of 8 or 16 bytes, upcast.
template <class T, class Vector>
__device__ inline void unpack(const Vector& vector, float (&out)[sizeof(Vector) / sizeof(T)]) {
  constexpr int kWords = sizeof(Vector) / 4;
  const auto& words = reinterpret_cast<const std::uint32_t(&)[kWords]>(vector);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      out[2 * i] = __uint_as_float(words[i] << 16);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    } else if constexpr (std::is_same_v<T, __half>) {
      const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
      out[2 * i] = both.x;
      out[2 * i + 1] = both.y;
    } else {
      out[i] = __uint_as_float(words[i]);
    }
  }
}

}  // namespace foreshard::gpu
