#include "core/models/tape.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/check.hpp"

namespace foreshard::model {
namespace {

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::uint64_t>(1, shape[i]);
  return strides;
}

}  // namespace

Storage::~Storage() {
  if (owned_) tape_.write_free(id_);
}

std::uint64_t TensorImpl::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

bool TensorImpl::contiguous() const {
  std::uint64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Op& Tape::emit(OpKind kind) {
  Op op;
  op.kind = kind;
  op.host_before = pending_host_;
  pending_host_ = {};
  ops_.push_back(op);
  return ops_.back();
}

std::shared_ptr<Storage> Tape::allocate(Bytes bytes) {
  if (bytes == 0) return nullptr;
  const TensorId id{static_cast<std::uint32_t>(alloc_op_.size())};
  alloc_op_.push_back(ops_.size());
  Op& op = emit(OpKind::alloc);
  op.tensor = id;
  op.size.bytes = bytes;
  op.unit = casting_;
  return std::make_shared<Storage>(*this, id);
}

void Tape::write_free(TensorId id) {
  emit(OpKind::free).tensor = id;
}

Tensor Tape::empty(const Shape& shape, DType dtype) {
  auto out = std::make_shared<TensorImpl>();
  out->shape = shape;
  out->strides = contiguous_strides(shape);
  out->dtype = dtype;
  out->storage = allocate(out->bytes());
  return out;
}

Tensor Tape::empty_like(const Tensor& like, DType dtype) {
  std::vector<std::size_t> order(like->shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return like->strides[a] > like->strides[b]; });
  Tensor out = empty(like->shape, dtype);
  std::uint64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    out->strides[order[i]] = stride;
    stride *= std::max<std::uint64_t>(1, like->shape[order[i]]);
  }
  return out;
}

Tensor Tape::parameter(ParameterId id, const Parameter& p, DType dtype) {
  if (module_of_.size() <= id.value) module_of_.resize(id.value + 1);
  module_of_[id.value] = p.name.substr(0, std::min(p.name.rfind('.'), p.name.size()));
  auto out = std::make_shared<TensorImpl>();
  out->shape.assign(p.shape.begin(), p.shape.end());
  out->strides = contiguous_strides(out->shape);
  out->dtype = dtype;
  out->requires_grad = p.requires_grad;
  out->parameter = id;
  out->elsewhere = {Operand::Kind::parameter, id.value};
  return out;
}

Tensor Tape::elsewhere(const Operand& memory, const Shape& shape, DType dtype) {
  auto out = std::make_shared<TensorImpl>();
  out->shape = shape;
  out->strides = contiguous_strides(shape);
  out->dtype = dtype;
  out->elsewhere = memory;
  return out;
}

Tensor Tape::alias(const Tensor& of, Shape shape, Shape strides, bool tracked, std::uint64_t offset) {
  auto out = std::make_shared<TensorImpl>();
  out->storage = of->storage;
  out->elsewhere = of->elsewhere;
  out->offset = of->offset + offset * itemsize(of->dtype);
  out->shape = std::move(shape);
  out->strides = std::move(strides);
  out->dtype = of->dtype;
  if (tracked) out->base = of->base ? of->base : of;
  return out;
}

Tensor Tape::detach(const Tensor& of) {
  return alias(of, of->shape, of->strides, false);
}

void Tape::synchronize() {
  emit(OpKind::synchronize);
}

namespace {

/// What the host spends at a hook's place without the sections that run there.
std::optional<HostCall> host_call(Hook hook, UnitId unit) {
  switch (hook) {
    case Hook::pre_forward:
      return unit == kRootUnit ? HostCall::forward_root : HostCall::pre_forward;
    case Hook::post_forward:
      return HostCall::post_forward;
    case Hook::pre_backward:
      return HostCall::pre_backward;
    case Hook::post_backward:
      return HostCall::post_backward;
    case Hook::backward_final:
      return HostCall::backward_final;
    default:
      return std::nullopt;
  }
}

}  // namespace

void Tape::hook(Hook hook, UnitId unit) {
  if (const auto call = host_call(hook, unit)) spend(*call);
  Op& op = emit(OpKind::hook);
  op.hook = hook;
  op.unit = unit;
}

namespace {

enum class Region : std::uint8_t { inputs, forward, backward };

Region region_after(Hook hook, Region now) {
  switch (hook) {
    case Hook::zero_grad:
    case Hook::microbatch_begin:
      return Region::inputs;
    case Hook::forward_begin:
      return Region::forward;
    case Hook::forward_end:
    case Hook::backward_begin:
    case Hook::optimizer_begin:
    case Hook::optimizer_end:
      return Region::backward;
    default:
      return now;
  }
}

}  // namespace

/// Blocks that are allocated for a launch with a parameter are of the parameter's module.
void Tape::write_modules() {
  std::size_t from = 0;
  for (const auto& [place, parameter] : launched_for_) {
    std::size_t first = place;
    while (first > from && ops_[first - 1].kind != OpKind::hook &&
           (ops_[first - 1].kind != OpKind::kernel || ops_[first - 1].kernel.kernel_class == KernelClass::memset) &&
           ops_[first - 1].kind != OpKind::copy)
      --first;
    const std::string& module = module_of_[parameter.value];
    for (; first < place && !module.empty(); ++first)
      if (ops_[first].kind == OpKind::alloc) ops_[first].module = labels_.intern(module);
    from = place + 1;
  }
  launched_for_.clear();
}

Program Tape::finish() {
  write_modules();
  std::vector<bool> freed_in_forward(alloc_op_.size(), false);
  Region region = Region::inputs;
  for (const Op& op : ops_) {
    if (op.kind == OpKind::hook) region = region_after(op.hook, region);
    if (op.kind == OpKind::free && region == Region::forward) freed_in_forward[op.tensor.value] = true;
  }
  region = Region::inputs;
  for (Op& op : ops_) {
    if (op.kind == OpKind::hook) region = region_after(op.hook, region);
    if (op.kind != OpKind::alloc || op.category != MemoryCategory::other) continue;
    if (op.gradient_of.valid())
      op.category = MemoryCategory::gradients;
    else if (region == Region::inputs)
      op.category = MemoryCategory::inputs;
    else if (region == Region::forward && !freed_in_forward[op.tensor.value])
      op.category = MemoryCategory::activations;
    else
      op.category = MemoryCategory::temporaries;
  }
  Program program;
  program.ops = std::move(ops_);
  ops_.clear();
  if (options_.keep_kernels) write_kernels(program);
  return program;
}

}  // namespace foreshard::model
