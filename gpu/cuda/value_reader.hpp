// Reads losses and gradients of a running step: copies behind the kernels that made them.
//
// Who: execution.cpp gives it to core/step as the observer of the timed pass. One thread. A loss costs one copy of four
// bytes and no wait; gradients wait for the GPU, so they are read only where somebody asks.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <span>
#include <vector>

#include "core/step/values.hpp"

namespace foreshard::gpu {

class ValueReader final : public ValueObserver {
 public:
  using Sink = std::function<void(std::int32_t step, const ShardedGradient& gradient, std::span<const char> bytes)>;
  explicit ValueReader(Sink sink) : sink_(std::move(sink)) {}
  ~ValueReader() override;
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;

  /// The stream that copies go on: the compute stream of the device that runs. Before the first step.
  void attach(cudaStream_t stream) { stream_ = stream; }
  void loss(std::int32_t step, Address address) override;
  void gradients(std::int32_t step, std::span<const ShardedGradient> gradients) override;
  /// By step. Requires a synchronised device.
  [[nodiscard]] std::vector<double> losses() const;

 private:
  static constexpr std::size_t kMaxSteps = 4096;
  Sink sink_;
  cudaStream_t stream_ = nullptr;
  float* losses_ = nullptr;  // pinned
  std::size_t count_ = 0;
  std::vector<char> bytes_;
};

}  // namespace foreshard::gpu
