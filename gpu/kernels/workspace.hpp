// Scratch memory of one stream: what a kernel writes there, the next kernel on the stream may overwrite.
// cuBLASLt's workspace, partial sums and cuDNN's workspace share it, because a stream runs one after another.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "core/base/quantity.hpp"
#include "gpu/kernels/status.hpp"

namespace foreshard::gpu {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// At least `bytes`, on a 256-byte boundary. Grows with cudaMalloc; what it grew out of stays allocated until the
  /// end, for kernels that may still run on it. Errors: out of memory.
  [[nodiscard]] Result<void*> reserve(Bytes bytes);
  [[nodiscard]] Bytes size() const { return size_; }
  /// With what it grew out of.
  [[nodiscard]] Bytes allocated() const { return allocated_; }

 private:
  void* data_ = nullptr;
  Bytes size_ = 0;
  Bytes allocated_ = 0;
  std::vector<void*> owned_;
};

}  // namespace foreshard::gpu
