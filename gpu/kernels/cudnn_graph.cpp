#include "gpu/kernels/cudnn_graph.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::int64_t kAlignment = 16;
constexpr std::size_t kMaxEngineConfigs = 16;

Result<CudnnDescriptor> created(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  FORESHARD_TRY(cudnn_status(cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor"));
  return CudnnDescriptor(raw);
}

Result<void> put(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                 std::int64_t count, const void* value) {
  return cudnn_status(cudnnBackendSetAttribute(descriptor.raw(), name, type, count, value), "cudnnBackendSetAttribute");
}

}  // namespace

Result<void> CudnnPlan::run(cudnnHandle_t handle, std::span<const std::int64_t> ids, std::span<void* const> pointers,
                            void* workspace) const {
  Result<CudnnDescriptor> pack = created(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  FORESHARD_TRY(pack);
  const auto count = static_cast<std::int64_t>(ids.size());
  FORESHARD_TRY(put(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data()));
  FORESHARD_TRY(put(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data()));
  FORESHARD_TRY(put(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  FORESHARD_TRY(cudnn_status(cudnnBackendFinalize(pack->raw()), "cudnnBackendFinalize of a variant pack"));
  return cudnn_status(cudnnBackendExecute(handle, plan_.raw(), pack->raw()), "cudnnBackendExecute");
}

CudnnGraph::Tensor CudnnGraph::make(cudnnBackendDescriptorType_t type) {
  if (status_ != CUDNN_STATUS_SUCCESS) return nullptr;
  cudnnBackendDescriptor_t raw = nullptr;
  status_ = cudnnBackendCreateDescriptor(type, &raw);
  if (status_ != CUDNN_STATUS_SUCCESS) {
    error_ = cudnn_status(status_, "cudnnBackendCreateDescriptor").error();
    return nullptr;
  }
  parts_.emplace_back(raw);
  return raw;
}

void CudnnGraph::set(Tensor descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* value) {
  if (status_ != CUDNN_STATUS_SUCCESS) return;
  status_ = cudnnBackendSetAttribute(descriptor, name, type, count, value);
  if (status_ != CUDNN_STATUS_SUCCESS) error_ = cudnn_status(status_, "cudnnBackendSetAttribute").error();
}

void CudnnGraph::seal(Tensor descriptor) {
  if (status_ != CUDNN_STATUS_SUCCESS) return;
  status_ = cudnnBackendFinalize(descriptor);
  if (status_ != CUDNN_STATUS_SUCCESS) error_ = cudnn_status(status_, "cudnnBackendFinalize").error();
}

void CudnnGraph::operation(Tensor descriptor) {
  seal(descriptor);
  operations_.push_back(descriptor);
}

CudnnGraph::Tensor CudnnGraph::tensor(std::int64_t id, cudnnDataType_t type, const Four& sizes, const Four& strides,
                                      Place place) {
  const Tensor t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const bool inside_graph = place == Place::inside;
  const bool by_value = place == Place::by_value;
  set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes.data());
  set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment);
  set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside_graph);
  set(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  seal(t);
  return t;
}

CudnnGraph::Tensor CudnnGraph::inside(cudnnDataType_t type, const Four& sizes) {
  const Four strides{sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  return tensor(next_id_++, type, sizes, strides, Place::inside);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Inputs& inputs, Tensor y, cudnnDataType_t precision,
                           int axis) {
  const Tensor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  const std::int64_t dimension = axis;
  if (axis >= 0) set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &dimension);
  seal(how);
  const Tensor op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &inputs.x);
  if (inputs.b != nullptr) set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &inputs.b);
  if (inputs.t != nullptr) set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &inputs.t);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
  operation(op);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  const Tensor how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  seal(how);
  const Tensor op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
  operation(op);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  const Tensor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  seal(how);
  const Tensor op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
  operation(op);
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  const Tensor op = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
  set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
  operation(op);
}

Result<std::unique_ptr<CudnnPlan>> CudnnGraph::finish(cudnnHandle_t handle) {
  const Tensor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      static_cast<std::int64_t>(operations_.size()), operations_.data());
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  seal(graph);
  const Tensor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  seal(heuristics);
  std::vector<Tensor> engine_configs;
  for (std::size_t i = 0; i < kMaxEngineConfigs; ++i)
    engine_configs.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  if (status_ != CUDNN_STATUS_SUCCESS) return tl::unexpected(error_);
  std::int64_t found = 0;
  FORESHARD_TRY(cudnn_status(
      cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               static_cast<std::int64_t>(engine_configs.size()), &found, engine_configs.data()),
      "cuDNN's heuristics"));
  Error last{ErrorKind::mismatch, "cuDNN has no kernel for an attention of this shape", {}, {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(engine_configs.size(), static_cast<std::size_t>(found)); ++i) {
    Result<CudnnDescriptor> plan = created(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    FORESHARD_TRY(plan);
    FORESHARD_TRY(
        put(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine_configs[i]));
    FORESHARD_TRY(put(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    if (const Result<void> sealed = cudnn_status(cudnnBackendFinalize(plan->raw()), "a cuDNN plan"); !sealed) {
      last = sealed.error();
      continue;
    }
    std::int64_t workspace = 0;
    std::int64_t count = 0;
    FORESHARD_TRY(cudnn_status(cudnnBackendGetAttribute(plan->raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                        CUDNN_TYPE_INT64, 1, &count, &workspace),
                               "a cuDNN plan's workspace"));
    return std::make_unique<CudnnPlan>(std::move(*plan), std::move(parts_), static_cast<Bytes>(workspace));
  }
  return tl::unexpected(last);
}

}  // namespace foreshard::gpu
