// Keeps some SMs from every other kernel for a while, as a collective of a few CTAs does, but moves nothing.
// Used by the probe alone; errors are DeviceFailures.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace foreshard::gpu {

class SmHolder {
 public:
  SmHolder();
  ~SmHolder();
  SmHolder(const SmHolder&) = delete;
  SmHolder& operator=(const SmHolder&) = delete;

  /// Holds `sms` SMs from when `stream` comes to this place …
  void hold(cudaStream_t stream, std::uint32_t sms);
  /// … until it comes to this one, but no longer than ten seconds.
  void release(cudaStream_t stream);

 private:
  cudaStream_t own_ = nullptr;
  cudaEvent_t here_ = nullptr;
  std::uint32_t* released_ = nullptr;  ///< device memory: 0 while SMs are held
};

}  // namespace foreshard::gpu
