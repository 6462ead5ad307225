#include <cuda_bf16.h>

#include <cstdio>
#include <cstdlib>

#include "tests/gpu/collectives/bench/compute_load.hpp"
#include "tests/gpu/collectives/patterns.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::uint64_t kEdge = 8192;
constexpr std::size_t kWorkspace = 32ULL << 20;
constexpr std::uint64_t kStreamBytes = 512ULL << 20;

__global__ void twice(const uint4* x, uint4* y, std::uint64_t count) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint4 v = x[i];
  auto* h = reinterpret_cast<__nv_bfloat162*>(&v);
#pragma unroll
  for (int j = 0; j < 4; ++j) h[j] = __hadd2(h[j], h[j]);
  y[i] = v;
}

void* random_memory(std::uint64_t bytes, std::uint64_t seed) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes) == cudaSuccess, "cudaMalloc");
  fill_pattern(memory, DType::bfloat16, 0, bytes / 2, 0, {seed, false}, nullptr);
  require(cudaDeviceSynchronize() == cudaSuccess, "fill");
  return memory;
}

}  // namespace

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::fflush(nullptr);
  std::_Exit(1);
}

GemmLoad::GemmLoad() {
  a_ = random_memory(kEdge * kEdge * 2, 1);
  b_ = random_memory(kEdge * kEdge * 2, 2);
  c_ = random_memory(kEdge * kEdge * 2, 3);
  require(cudaMalloc(&workspace_, kWorkspace) == cudaSuccess, "cudaMalloc");
  require(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS, "cublasLtCreate");
  require(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS, "desc");
  require(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_16BF, kEdge, kEdge, kEdge) == CUBLAS_STATUS_SUCCESS, "layout");
  cublasLtMatmulPreference_t preference = nullptr;
  require(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS, "preference");
  const std::size_t workspace = kWorkspace;
  require(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                               sizeof workspace) == CUBLAS_STATUS_SUCCESS,
          "preference");
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  require(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_, layout_, layout_, layout_, preference, 1,
                                         &result, &found) == CUBLAS_STATUS_SUCCESS &&
              found == 1,
          "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = result.algo;
  cublasLtMatmulPreferenceDestroy(preference);
}

GemmLoad::~GemmLoad() {
  cublasLtMatrixLayoutDestroy(layout_);
  cublasLtMatmulDescDestroy(operation_);
  cublasLtDestroy(handle_);
  for (void* memory : {a_, b_, c_, workspace_}) (void)cudaFree(memory);
}

void GemmLoad::run(cudaStream_t stream) {
  const float one = 1.0F;
  const float zero = 0.0F;
  require(cublasLtMatmul(handle_, operation_, &one, a_, layout_, b_, layout_, &zero, c_, layout_, c_, layout_,
                         &algorithm_, workspace_, kWorkspace, stream) == CUBLAS_STATUS_SUCCESS,
          "cublasLtMatmul");
}

StreamLoad::StreamLoad() : x_(random_memory(kStreamBytes, 4)), y_(random_memory(kStreamBytes, 5)) {}

StreamLoad::~StreamLoad() {
  (void)cudaFree(x_);
  (void)cudaFree(y_);
}

void StreamLoad::run(cudaStream_t stream) {
  const std::uint64_t count = kStreamBytes / 16;
  twice<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(static_cast<const uint4*>(x_),
                                                                        static_cast<uint4*>(y_), count);
}

}  // namespace foreshard::gpu
