// Casts to float8 on the device, as all kernels that make one do them.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

namespace foreshard::gpu::float8 {

using Format = __nv_fp8_interpretation_t;

/// The bits of a number without its sign order as whole numbers do, and NaN's are above all others'.
constexpr std::uint32_t kMagnitude = 0x7fffffffU;

/// torchao's amax_to_scale.
template <Format kFormat>
__device__ inline float scale_of(float amax) {
  const double most = kFormat == __NV_E4M3 ? 448.0 : 57344.0;
  const double largest = amax;
  return static_cast<float>(most / (largest < 1e-12 ? 1e-12 : largest));
}

/// Elements scaled and cast, four a word.
template <Format kFormat, int kWidth>
__device__ inline void cast(std::uint32_t (&words)[kWidth / 4], const float (&v)[kWidth], float scale) {
#pragma unroll
  for (int k = 0; k < kWidth; k += 2) {
    const float2 pair = make_float2(__fmul_rn(v[k], scale), __fmul_rn(v[k + 1], scale));
    const std::uint32_t bits = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, kFormat);
    words[k / 4] = (k % 4 == 0 ? 0 : words[k / 4]) | bits << (8 * (k % 4));
  }
}

}  // namespace foreshard::gpu::float8
