#include "gpu/kernels/status.hpp"

#include <fmt/format.h>

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

tl::unexpected<Error> device_failure(std::string what, std::string where, std::string hint) {
  return fail(ErrorKind::mismatch, std::move(what), std::move(where), std::move(hint));
}

Result<void> cuda_status(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return {};
  std::string what = fmt::format("{} failed: {} ({}, code {})", call, cudaGetErrorString(status),
                                 cudaGetErrorName(status), static_cast<int>(status));
  if (status == cudaErrorMemoryAllocation) return fail(ErrorKind::out_of_memory, std::move(what));
  return device_failure(std::move(what));
}

Result<void> cublas_status(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return device_failure(
      fmt::format("{} failed: {} (code {})", call, cublasLtGetStatusString(status), static_cast<int>(status)));
}

Result<void> cudnn_status(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  char last[512] = {};
  cudnnGetLastErrorString(last, sizeof last);
  return device_failure(
      fmt::format("{} failed: {} (code {})", call, cudnnGetErrorString(status), static_cast<int>(status)), {}, last);
}

tl::unexpected<Error> bad_operand(std::string_view op, std::size_t operand, std::string_view what) {
  return device_failure(fmt::format("{} cannot run on the GPU: operand {} {}", op, operand, what));
}

}  // namespace foreshard::gpu
