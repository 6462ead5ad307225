// How a CUDA error crosses the seams of core/device, whose functions return no errors.
//
// Who: gpu/cuda throws it; gpu/cuda's guarded() turns it back into an Error at the edge of a run. core/step does not
// catch it: nothing of a run is worth keeping once its device has failed. Only this type may pass through core.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {

class DeviceFailure final : public std::exception {
 public:
  explicit DeviceFailure(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.what.c_str(); }

 private:
  Error error_;
};

/// The value, or a DeviceFailure with the error.
template <class T>
T require(Result<T> result) {
  if (!result) throw DeviceFailure(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline void require(cudaError_t code, std::string_view call) {
  if (code != cudaSuccess) require(check(code, call));
}

/// What `body` returns, a Result, or the error of the DeviceFailure that it threw.
template <class Body>
auto guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const DeviceFailure& failure) {
    return tl::unexpected<Error>(failure.error());
  }
}

}  // namespace foreshard::gpu
