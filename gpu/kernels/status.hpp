// Return codes of CUDA, cuBLASLt and cuDNN as Results. Who: gpu/kernels only.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::gpu {

/// What every failure of a device or of its libraries is.
[[nodiscard]] tl::unexpected<Error> device_failure(std::string what, std::string where = {}, std::string hint = {});

[[nodiscard]] Result<void> cuda_status(cudaError_t status, std::string_view call);
[[nodiscard]] Result<void> cublas_status(cublasStatus_t status, std::string_view call);
[[nodiscard]] Result<void> cudnn_status(cudnnStatus_t status, std::string_view call);

/// Whether the kernel launched just before could be launched.
[[nodiscard]] inline Result<void> launched(const char* kernel) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) [[likely]]
    return {};
  return cuda_status(status, kernel);
}

}  // namespace foreshard::gpu
