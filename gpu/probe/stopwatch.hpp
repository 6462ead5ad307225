// Times loops of GPU work with CUDA events. Used by the probe alone; errors are DeviceFailures.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "core/base/quantity.hpp"

namespace foreshard::gpu {

class Stopwatch {
 public:
  Stopwatch();
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// One repetition's work on a stream.
  using Work = std::function<void(cudaStream_t)>;

  /// Microseconds of one `work`: the median of three loops of `count` on `stream`, after one warm-up.
  [[nodiscard]] double isolated(cudaStream_t stream, int count, const Work& work);
  /// The same of `work` on `stream` while `other` runs on `concurrent` all the time: `others` of it are queued
  /// first, and both start together. Returns 0 where the other was through before `work` was.
  [[nodiscard]] double concurrent(cudaStream_t stream, int count, const Work& work, cudaStream_t concurrent, int others,
                                  const Work& other);

  /// Both at once: microseconds from their common start to the end of all `count` of `work`, and of all `others`.
  struct Both {
    double work = 0;
    double other = 0;
  };
  [[nodiscard]] Both both(cudaStream_t stream, int count, const Work& work, cudaStream_t concurrent, int others,
                          const Work& other);

 private:
  [[nodiscard]] double elapsed_us(cudaEvent_t from, cudaEvent_t to) const;

  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  cudaEvent_t other_stop_ = nullptr;
  cudaEvent_t gate_ = nullptr;
};

}  // namespace foreshard::gpu
