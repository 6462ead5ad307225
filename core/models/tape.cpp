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

/// Tiles of 128 × 256, cuBLAS' usual choice for large products on sm90 (read off the kernel names of the reference
/// runs: nvjet_sm90_tst_128x256…, 256x128…). Products of more tiles than SMs run with a scheduler whose counter
/// cuBLAS sets to zero first.
constexpr std::uint64_t kTileRows = 128;
constexpr std::uint64_t kTileColumns = 256;
constexpr Bytes kCounterBytes = 4;
constexpr Bytes kCublasLtWorkspace = kMiB;  ///< CUDABlas.cpp, _parseChosenWorkspaceSize: 1024 KiB

HostCall host_call(Launch kind, bool backward) {
  switch (kind) {
    case Launch::elementwise:
      return backward ? HostCall::backward_elementwise : HostCall::elementwise;
    case Launch::reduction:
      return backward ? HostCall::backward_reduction : HostCall::reduction;
    case Launch::gemm:
      return backward ? HostCall::backward_gemm : HostCall::gemm;
    case Launch::attention:
      return backward ? HostCall::backward_attention : HostCall::attention;
    case Launch::embedding:
      return backward ? HostCall::backward_elementwise : HostCall::embedding;
    case Launch::random:
      return HostCall::random;
  }
  return HostCall::elementwise;
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

Tensor Tape::parameter(ParameterId id, const Shape& shape, DType dtype) {
  auto out = std::make_shared<TensorImpl>();
  out->shape = shape;
  out->strides = contiguous_strides(shape);
  out->dtype = dtype;
  out->requires_grad = true;
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

void Tape::launch(Launch kind, std::string_view label, Bytes bytes, KernelClass kernel_class) {
  spend(host_call(kind, in_backward()));
  Op& op = emit(OpKind::kernel);
  op.kernel.kernel_class = kernel_class;
  op.kernel.bytes = bytes;
  op.kernel.label = op.label = labels_.intern(label);
}

void Tape::launch_memset(Bytes bytes) {
  Op& op = emit(OpKind::kernel);
  op.kernel.kernel_class = KernelClass::memset;
  op.kernel.bytes = bytes;
  op.kernel.label = op.label = labels_.intern("Memset");
  included();  // counters of the kernel that follows
}

void Tape::copy(CopyKind kind, Bytes bytes, std::string_view label) {
  spend(host_call(Launch::elementwise, in_backward()));
  Op& op = emit(OpKind::copy);
  op.copy.kind = kind;
  op.copy.bytes = bytes;
  op.copy.label = op.label = labels_.intern(label);
}

/// Each thread's first product makes its cuBLAS handle's workspace (CUDABlas.cpp, getCurrentCUDABlasHandle).
void Tape::need_cublas() {
  bool& made = in_backward_ ? backward_workspace_ : forward_workspace_;
  if (made || !options_.first_step) return;
  made = true;
  keep_workspace(options_.cublas_workspace);
}

void Tape::need_cublas_lt() {
  need_cublas();
  bool& made = in_backward_ ? backward_lt_workspace_ : forward_lt_workspace_;
  if (made || !options_.first_step) return;
  made = true;
  keep_workspace(kCublasLtWorkspace);
}

void Tape::keep_workspace(Bytes bytes) {
  const std::shared_ptr<Storage> workspace = allocate(bytes);
  if (!workspace) return;
  ops_.back().category = MemoryCategory::workspaces;
  workspace->disown();
}

void Tape::launch_gemm(std::string_view label, std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype,
                       std::uint32_t batch) {
  need_cublas();
  spend(host_call(Launch::gemm, in_backward()));
  const std::uint64_t tiles = ceil_div(m, kTileRows) * ceil_div(n, kTileColumns) * batch;
  if (itemsize(dtype) == 2 && batch == 1 && tiles > options_.sm_count) launch_memset(kCounterBytes);
  Op& op = emit(OpKind::kernel);
  op.kernel.kernel_class = KernelClass::gemm;
  op.kernel.bytes = (m * k + k * n + m * n) * batch * itemsize(dtype);
  op.kernel.math = {KernelMath::Kind::gemm, dtype, false, batch, m, n, k};
  op.kernel.label = op.label = labels_.intern(label);
}

void Tape::launch_attention(std::string_view label, const KernelMath& math, Bytes bytes) {
  spend(host_call(Launch::attention, in_backward()));
  Op& op = emit(OpKind::kernel);
  op.kernel.kernel_class = KernelClass::attention;
  op.kernel.bytes = bytes;
  op.kernel.math = math;
  op.kernel.label = op.label = labels_.intern(label);
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

Program Tape::finish() {
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
  if (options_.computations) write_computations(program);
  return program;
}

}  // namespace foreshard::model
