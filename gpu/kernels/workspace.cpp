#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

Workspace::~Workspace() {
  for (void* block : owned_) static_cast<void>(cudaFree(block));
}

Result<void*> Workspace::reserve(Bytes bytes) {
  if (bytes <= size_) [[likely]]
    return data_;
  void* grown = nullptr;
  FORESHARD_TRY(cuda_status(cudaMalloc(&grown, bytes), "cudaMalloc of a workspace"));
  owned_.push_back(grown);
  data_ = grown;
  size_ = bytes;
  allocated_ += bytes;
  return data_;
}

}  // namespace foreshard::gpu
