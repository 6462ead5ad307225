// A graph of cuDNN's backend operations and the plan that runs it. Only what attention needs: tensors of four
// dimensions, pointwise operations, reductions, GEMMs and reshapes, all with float32 arithmetic.
//
// Errors are kept: the first failure makes every later call do nothing, and finish() returns it.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/quantity.hpp"
#include "gpu/kernels/status.hpp"

namespace foreshard::gpu {

/// Owns one backend descriptor.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptor_t raw) : raw_(raw) {}
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
  }
  [[nodiscard]] cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// A finished graph on this machine.
class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::vector<CudnnDescriptor> parts, Bytes workspace)
      : parts_(std::move(parts)), plan_(std::move(plan)), workspace_(workspace) {}

  [[nodiscard]] Bytes workspace() const { return workspace_; }
  /// `pointers` by `ids`; those of tensors by value are on the host and are read now.
  [[nodiscard]] Result<void> run(cudnnHandle_t handle, std::span<const std::int64_t> ids,
                                 std::span<void* const> pointers, void* workspace) const;

 private:
  std::vector<CudnnDescriptor> parts_;
  CudnnDescriptor plan_;
  Bytes workspace_;
};

class CudnnGraph {
 public:
  using Four = std::array<std::int64_t, 4>;
  using Tensor = cudnnBackendDescriptor_t;

  enum class Place : std::uint8_t { device, by_value, inside };

  /// `id` names a tensor in run(); tensors inside the graph get one of their own.
  [[nodiscard]] Tensor tensor(std::int64_t id, cudnnDataType_t type, const Four& sizes, const Four& strides,
                              Place place);
  /// A contiguous tensor inside the graph.
  [[nodiscard]] Tensor inside(cudnnDataType_t type, const Four& sizes);

  struct Inputs {
    Tensor x = nullptr;
    Tensor b = nullptr;
    Tensor t = nullptr;  ///< BINARY_SELECT: the condition
  };
  void pointwise(cudnnPointwiseMode_t mode, const Inputs& inputs, Tensor y,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT, int axis = -1);
  void reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  void matmul(Tensor a, Tensor b, Tensor c);
  void reshape(Tensor x, Tensor y);

  /// The first of the library's choices that this machine can run.
  [[nodiscard]] Result<std::unique_ptr<CudnnPlan>> finish(cudnnHandle_t handle);

 private:
  Tensor make(cudnnBackendDescriptorType_t type);
  void set(Tensor descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* value);
  void seal(Tensor descriptor);
  void operation(Tensor descriptor);

  std::vector<CudnnDescriptor> parts_;
  std::vector<Tensor> operations_;
  std::int64_t next_id_ = 1000;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  Error error_;
};

}  // namespace foreshard::gpu
