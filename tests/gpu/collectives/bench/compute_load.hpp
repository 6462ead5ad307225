// What runs concurrently with a collective in the benchmark: an 8192³ bfloat16 GEMM through cuBLASLt, and a kernel
// bound by memory.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace foreshard::gpu {

/// C = A B on random operands, 8192³, with the algorithm that cuBLASLt's heuristic puts first.
class GemmLoad {
 public:
  GemmLoad();
  ~GemmLoad();
  GemmLoad(const GemmLoad&) = delete;
  GemmLoad& operator=(const GemmLoad&) = delete;
  void run(cudaStream_t stream);

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  void* a_ = nullptr;
  void* b_ = nullptr;
  void* c_ = nullptr;
  void* workspace_ = nullptr;
};

/// y = 2 x over 512 MiB of bfloat16.
class StreamLoad {
 public:
  StreamLoad();
  ~StreamLoad();
  StreamLoad(const StreamLoad&) = delete;
  StreamLoad& operator=(const StreamLoad&) = delete;
  void run(cudaStream_t stream);

 private:
  void* x_ = nullptr;
  void* y_ = nullptr;
};

/// Ends the process with the call's text when a CUDA or cuBLAS call failed: the benchmark has nothing to go on with.
void require(bool good, const char* what);

}  // namespace foreshard::gpu
