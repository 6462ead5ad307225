// One GPU and one rank for a test.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include "gpu/bootstrap/bootstrap.hpp"

namespace foreshard::gpu {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// The exchange of a run of one rank.
class SingleRankBootstrap final : public Bootstrap {
 public:
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 1; }
  std::uint32_t local_rank() const override { return 0; }
  std::uint32_t local_ranks() const override { return 1; }
  Result<std::vector<std::string>> all_gather(std::string_view, std::string_view bytes) override {
    return std::vector<std::string>{std::string(bytes)};
  }
  Result<void> barrier(std::string_view) override { return {}; }
  Result<std::vector<int>> share_descriptor(std::string_view, int descriptor) override {
    return std::vector<int>{dup(descriptor)};
  }
};

}  // namespace foreshard::gpu
