#include "core/models/setup.hpp"

#include "core/shard/layout.hpp"

namespace foreshard::model {
namespace {

constexpr Bytes kWrapBytes = 4;     ///< a scalar that fully_shard's mesh check exchanges (reference runs)
constexpr Bytes kBarrierBytes = 1;  ///< a barrier's tensor: the process group keeps its latest
constexpr Bytes kRandomBytes =
    16;  ///< DTensor's random ops: generator state broadcast, seed and offset (reference runs)

}  // namespace

TensorId SetupWriter::alloc(Bytes bytes, MemoryCategory category) {
  Op op;
  op.kind = OpKind::alloc;
  op.tensor = TensorId{next_++};
  op.size.bytes = bytes;
  op.category = category;
  program_.ops.push_back(op);
  return op.tensor;
}

TensorId SetupWriter::alloc_shard(ParameterId parameter) {
  std::size_t first = 0;
  std::size_t unit = 0;
  while (parameter.value >= first + units_[unit].parameters.size()) first += units_[unit++].parameters.size();
  const Parameter& p = units_[unit].parameters[parameter.value - first];
  const Bytes bytes = local_shard_numel(p, shard_dimension(settings_)) * itemsize(p.dtype);
  const TensorId id = alloc(bytes, MemoryCategory::parameters);
  AllocationSize& size = program_.ops.back().size;
  size.kind = AllocationSize::Kind::local_shard;
  size.parameter = parameter;
  return id;
}

void SetupWriter::filled_with(Kernel what, std::vector<std::uint64_t> shape, DType dtype) {
  if (!keep_kernels_) return;
  Op& block = program_.ops.back();
  TensorView view;
  view.dtype = dtype;
  view.strides.assign(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  view.shape = std::move(shape);
  what.operands = {std::move(view)};
  block.kernel_index = static_cast<std::uint32_t>(program_.kernels.size());
  program_.kernels.push_back({std::move(what), {{Operand::Kind::tensor, block.tensor.value}}});
}

void SetupWriter::free(TensorId tensor) {
  Op op;
  op.kind = OpKind::free;
  op.tensor = tensor;
  program_.ops.push_back(op);
}

void SetupWriter::scratch(Bytes bytes) {
  free(alloc(bytes));
}

void SetupWriter::first_wrap() {
  if (!settings_.offload) scratch(kWrapBytes);
}

void SetupWriter::custom_gathers() {
  if (settings_.all_gather != Transport::symmetric && settings_.all_gather != Transport::copy_engine) return;
  alloc(kBarrierBytes);
  Op op;
  op.kind = OpKind::free;
  op.before_recording = true;
  op.size.bytes = kFirstSegment;
  program_.ops.push_back(op);
  scratch(kWrapBytes);
}

void SetupWriter::to_empty() {
  if (settings_.offload) return;
  for (ParameterId id : order_) alloc_shard(id);
}

void SetupWriter::init_normal() {
  const TensorId first = alloc(kRandomBytes);
  const TensorId second = alloc(kRandomBytes);
  scratch(kRandomBytes);
  free(first);
  free(second);
  for (std::size_t i = 0; i < order_.size(); ++i) scratch(kRandomBytes);
  custom_gathers();
}

}  // namespace foreshard::model
