#include "gpu/cuda/value_reader.hpp"

#include <algorithm>

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {

ValueReader::~ValueReader() {
  if (losses_ != nullptr) static_cast<void>(cudaFreeHost(losses_));
}

void ValueReader::loss(std::int32_t step, Address address) {
  const auto place = static_cast<std::size_t>(step);
  if (place >= kMaxSteps) return;
  if (losses_ == nullptr)
    require(cudaMallocHost(reinterpret_cast<void**>(&losses_), kMaxSteps * sizeof(float)), "cudaMallocHost");
  require(cudaMemcpyAsync(losses_ + place, reinterpret_cast<const void*>(address), sizeof(float),
                          cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
  count_ = std::max(count_, place + 1);
}

void ValueReader::gradients(std::int32_t step, std::span<const ShardedGradient> gradients) {
  if (!sink_) return;
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (const ShardedGradient& gradient : gradients) {
    bytes_.resize(gradient.numel * itemsize(gradient.dtype));
    require(cudaMemcpyAsync(bytes_.data(), reinterpret_cast<const void*>(gradient.gradient), bytes_.size(),
                            cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync");
    require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    sink_(step, gradient, bytes_);
  }
}

std::vector<double> ValueReader::losses() const {
  std::vector<double> out;
  for (std::size_t i = 0; i < count_; ++i) out.push_back(static_cast<double>(losses_[i]));
  return out;
}

}  // namespace foreshard::gpu
