#include "core/models/reduction.hpp"

#include <algorithm>
#include <bit>

namespace foreshard::model {
namespace {

// Reduce.cuh: mnt_wrapper::MAX_NUM_THREADS, vt0, min_values_per_thread, max_values_per_thread; cudaDeviceProp's
// warpSize and maxThreadsPerMultiProcessor (sm80, sm90 and sm100 alike: CUDA programming guide, compute capabilities).
constexpr std::uint64_t kMaxThreads = 512;
constexpr std::uint64_t kInputVector = 4;
constexpr std::uint64_t kMinValues = 16;
constexpr std::uint64_t kMaxValues = 256;
constexpr std::uint64_t kWarp = 32;
constexpr std::uint64_t kThreadsPerSm = 2048;
constexpr std::uint64_t kVectorizeFrom = 128;
constexpr Bytes kSemaphoreBytes = 4;

/// get_output_vec_size
std::uint64_t output_vector(std::uint64_t outputs) {
  std::uint64_t size = 4;
  while (outputs % size != 0) size /= 2;
  return size;
}

}  // namespace

ReductionWorkspace reduction_workspace(const Reduction& reduction, std::uint32_t sm_count) {
  std::uint64_t dim0 = reduction.along_memory ? reduction.inputs : reduction.outputs;
  const std::uint64_t dim1 = reduction.along_memory ? reduction.outputs : reduction.inputs;
  const std::uint64_t vector = reduction.along_memory ? 1 : output_vector(reduction.outputs);
  if (!reduction.along_memory) dim0 /= vector;
  if (reduction.along_memory && dim0 >= kVectorizeFrom) dim0 /= kInputVector;

  const std::uint64_t max_threads = kMaxThreads / vector;
  const std::uint64_t power0 = std::min(std::bit_floor(dim0), max_threads);
  const std::uint64_t power1 = std::min(std::bit_floor(dim1), max_threads);
  std::uint64_t width = std::min(power0, kWarp);
  const std::uint64_t height = std::min(power1, max_threads / width);
  width = std::min(power0, max_threads / height);

  std::uint64_t step_input = reduction.along_memory ? width : 1;
  std::uint64_t step_output = reduction.along_memory ? 1 : width;
  const auto values = [&] { return ceil_div(reduction.inputs, step_input); };
  const bool over_warps = values() >= height * kMinValues || values() >= kMaxValues;
  (over_warps ? step_input : step_output) *= height;

  const std::uint64_t grid = ceil_div(reduction.outputs / vector, step_output);
  const std::uint64_t target = sm_count * (kThreadsPerSm / (width * height));
  if (!over_warps || values() < kMaxValues || grid > target) return {};
  const std::uint64_t blocks =
      std::max(std::min(ceil_div(target, grid), ceil_div(values(), kMinValues)), ceil_div(values(), kMaxValues));
  if (blocks <= 1) return {};
  const std::uint64_t lanes = reduction.along_memory ? 1 : width * vector;
  return {reduction.accumulator_bytes * reduction.outputs * blocks * lanes, kSemaphoreBytes * grid};
}

}  // namespace foreshard::model
