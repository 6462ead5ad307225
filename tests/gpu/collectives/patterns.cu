#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/gpu/collectives/patterns.hpp"

namespace foreshard::gpu {
namespace {

__host__ __device__ std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}
__host__ __device__ float raw_value(std::uint64_t index, std::uint32_t rank, Pattern pattern) {
  const std::uint64_t bits = mix(mix(pattern.seed * 0x9e3779b97f4a7c15ULL + rank) + index);
  if (pattern.integers) return static_cast<float>(static_cast<int>(bits % 17) - 8);
  return static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 4.656612873077393e-10F;
}

template <class T>
struct As;
template <>
struct As<float> {
  __host__ __device__ static float to(float x) { return x; }
  __host__ __device__ static float from(float x) { return x; }
};
template <>
struct As<__nv_bfloat16> {
  __host__ __device__ static __nv_bfloat16 to(float x) { return __float2bfloat16_rn(x); }
  __host__ __device__ static float from(__nv_bfloat16 x) { return __bfloat162float(x); }
};
template <>
struct As<__half> {
  __host__ __device__ static __half to(float x) { return __float2half_rn(x); }
  __host__ __device__ static float from(__half x) { return __half2float(x); }
};

template <class T>
__device__ bool same(T a, T b) {
  if constexpr (sizeof(T) == 4)
    return __float_as_uint(a) == __float_as_uint(b);
  else
    return *reinterpret_cast<const unsigned short*>(&a) == *reinterpret_cast<const unsigned short*>(&b);
}

template <class T>
__global__ void fill(T* memory, std::uint64_t first, std::uint64_t count, std::uint32_t rank, Pattern pattern) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    memory[i] = As<T>::to(raw_value(first + i, rank, pattern));
}

template <class T>
__global__ void wrong_gather(const T* gathered, std::uint64_t count, std::uint32_t ranks, Pattern pattern,
                             unsigned long long* wrong) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count * ranks; i += step)
    if (!same(gathered[i], As<T>::to(raw_value(i % count, static_cast<std::uint32_t>(i / count), pattern))))
      atomicAdd(wrong, 1ULL);
}

template <class In, class Out>
__global__ void wrong_reduce(const Out* reduced, std::uint64_t count, std::uint32_t ranks, std::uint32_t rank,
                             float scale, Pattern pattern, unsigned long long* wrong) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    float sum = As<In>::from(As<In>::to(raw_value(rank * count + i, 0, pattern)));
    for (std::uint32_t r = 1; r < ranks; ++r)
      sum = __fadd_rn(sum, As<In>::from(As<In>::to(raw_value(rank * count + i, r, pattern))));
    if (!same(reduced[i], As<Out>::to(__fmul_rn(sum, scale)))) atomicAdd(wrong, 1ULL);
  }
}

constexpr int kBlocks = 264;
constexpr int kThreads = 512;

template <class Body>
void with_type(DType dtype, Body body) {
  if (dtype == DType::float32) body(float{});
  if (dtype == DType::bfloat16) body(__nv_bfloat16{});
  if (dtype == DType::float16) body(__half{});
}

}  // namespace

void fill_pattern(void* memory, DType dtype, std::uint64_t first, std::uint64_t count, std::uint32_t rank,
                  Pattern pattern, cudaStream_t stream) {
  with_type(dtype, [&](auto t) {
    fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<decltype(t)*>(memory), first, count, rank, pattern);
  });
}

void count_wrong_gather(const void* gathered, DType dtype, std::uint64_t count, std::uint32_t ranks, Pattern pattern,
                        unsigned long long* wrong, cudaStream_t stream) {
  with_type(dtype, [&](auto t) {
    wrong_gather<<<kBlocks, kThreads, 0, stream>>>(static_cast<const decltype(t)*>(gathered), count, ranks, pattern,
                                                   wrong);
  });
}

void count_wrong_reduce(const void* reduced, DType input_type, DType output_type, std::uint64_t count,
                        std::uint32_t ranks, std::uint32_t rank, float scale, Pattern pattern,
                        unsigned long long* wrong, cudaStream_t stream) {
  with_type(input_type, [&](auto in) {
    with_type(output_type, [&](auto out) {
      using Out = decltype(out);
      wrong_reduce<decltype(in), Out><<<kBlocks, kThreads, 0, stream>>>(static_cast<const Out*>(reduced), count, ranks,
                                                                        rank, scale, pattern, wrong);
    });
  });
}

float pattern_value(DType dtype, std::uint64_t index, std::uint32_t rank, Pattern pattern) {
  float value = 0;
  with_type(dtype, [&](auto t) {
    using T = decltype(t);
    value = As<T>::from(As<T>::to(raw_value(index, rank, pattern)));
  });
  return value;
}

}  // namespace foreshard::gpu
