// Random data that every rank can compute for every other, and comparisons with a plain reference, on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.hpp"

namespace foreshard::gpu {

/// What element `index` of `rank`'s input is: uniform in [-1, 1), or, where `integers`, a whole number in [-8, 8],
/// whose sums are exact in every order.
struct Pattern {
  std::uint64_t seed = 0;
  bool integers = false;
};

/// Writes elements [first, first + count) of `rank`'s input to `memory`.
void fill_pattern(void* memory, DType dtype, std::uint64_t first, std::uint64_t count, std::uint32_t rank,
                  Pattern pattern, cudaStream_t stream);
/// Counts the elements of `gathered`, [ranks × count], that are not rank r's elements [0, count).
void count_wrong_gather(const void* gathered, DType dtype, std::uint64_t count, std::uint32_t ranks, Pattern pattern,
                        unsigned long long* wrong, cudaStream_t stream);
/// Counts the elements of `reduced`, [count], whose bits are not those of scale × the sum over ranks, in order and in
/// fp32, of elements [rank × count, (rank + 1) × count).
void count_wrong_reduce(const void* reduced, DType input_type, DType output_type, std::uint64_t count,
                        std::uint32_t ranks, std::uint32_t rank, float scale, Pattern pattern,
                        unsigned long long* wrong, cudaStream_t stream);
/// The same value on the host, for tests that recompute a few elements there.
float pattern_value(DType dtype, std::uint64_t index, std::uint32_t rank, Pattern pattern);

}  // namespace foreshard::gpu
