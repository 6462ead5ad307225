// The tape's launches: a kernel's description, its cost, and the memory of its operands.
#include <algorithm>
#include <limits>

#include "core/base/check.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "core/models/tape.hpp"
#include "core/workload/pytorch_costs.hpp"

namespace foreshard::model {
namespace {

/// Tiles of 128 × 256, cuBLAS' usual choice for large products on sm90 (read off the kernel names of the reference
/// runs: nvjet_sm90_tst_128x256…, 256x128…). Products of more tiles than SMs run with a scheduler whose counter
/// cuBLAS sets to zero first.
constexpr std::uint64_t kTileRows = 128;
constexpr std::uint64_t kTileColumns = 256;
constexpr Bytes kCounterBytes = 4;
constexpr Bytes kCublasLtWorkspace = kMiB;  ///< CUDABlas.cpp, _parseChosenWorkspaceSize: 1024 KiB

/// A generated program has one process group of its own at most: tensor parallel or expert parallel (generate.cpp).
constexpr std::uint8_t kOwnStream = 1;
constexpr std::uint32_t kOwnGroup = 0;

/// Whether it is an aten op of a forward.
bool is_op(HostCall call) {
  switch (call) {
    case HostCall::view:
    case HostCall::elementwise:
    case HostCall::reduction:
    case HostCall::gemm:
    case HostCall::attention:
    case HostCall::embedding:
    case HostCall::random:
      return true;
    default:
      return false;
  }
}

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

/// What launching an op costs the host.
Launch launch_of(KernelOp op) {
  switch (op) {
    case KernelOp::gemm:
    case KernelOp::scaled_mm:
      return Launch::gemm;
    case KernelOp::attention:
    case KernelOp::attention_backward:
      return Launch::attention;
    case KernelOp::embedding:
      return Launch::embedding;
    case KernelOp::random_normal:
    case KernelOp::random_tokens:
      return Launch::random;
    case KernelOp::sum_to:
    case KernelOp::layer_norm:
    case KernelOp::layer_norm_backward:
    case KernelOp::layer_norm_backward_weights:
    case KernelOp::rms_norm:
    case KernelOp::rms_norm_backward:
    case KernelOp::rms_norm_backward_weight:
    case KernelOp::add_rms_norm:
    case KernelOp::add_rms_norm_backward:
    case KernelOp::log_softmax:
    case KernelOp::log_softmax_backward:
    case KernelOp::nll_loss:
    case KernelOp::nll_loss_backward:
    case KernelOp::cross_entropy:
    case KernelOp::softmax:
    case KernelOp::softmax_backward:
    case KernelOp::amax:
      return Launch::reduction;
    default:
      return Launch::elementwise;
  }
}

bool elementwise(KernelOp op) {
  return op >= KernelOp::fill && op <= KernelOp::dropout_backward;
}

/// The tensor's memory as `shape`: dimensions of size 1, and those that it lacks in front, are read over and over.
TensorView expanded(const TensorImpl& x, const Shape& shape) {
  TensorView view;
  view.offset = x.offset;
  view.dtype = x.dtype;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  FORESHARD_CHECK(x.shape.size() <= shape.size(), "an operand has no more dimensions than the output");
  const std::size_t lacking = shape.size() - x.shape.size();
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] == shape[lacking + i]) view.strides[lacking + i] = x.strides[i];
  return view;
}

Operand memory_of(const TensorImpl& x) {
  return x.storage ? Operand{Operand::Kind::tensor, x.storage->id().value} : x.elsewhere;
}

bool launches(const Op& op) {
  return op.kind == OpKind::kernel || op.kind == OpKind::copy;
}

}  // namespace

TensorView view_of(const TensorImpl& x) {
  return {x.offset, x.dtype, false, x.shape, x.strides};
}

void Tape::emit_kernel(std::string_view label, const KernelWork& cost) {
  Op& op = emit(OpKind::kernel);
  op.kernel = cost;
  op.kernel.label = op.label = labels_.intern(label);
}

/// cublasLt and cublas: a handle's workspace, the scheduler's counter, the product.
void Tape::emit_gemm(std::string_view label, const KernelWork& cost) {
  need_cublas();
  spend(host_call(Launch::gemm, in_backward()));
  const KernelMath& math = cost.math;
  const std::uint64_t tiles = ceil_div(math.m, kTileRows) * ceil_div(math.n, kTileColumns) * math.batch;
  if (itemsize(math.dtype) == 2 && math.batch == 1 && tiles > options_.sm_count) launch_memset(kCounterBytes);
  emit_kernel(label, cost);
}

void Tape::write_launch(std::string_view label, Kernel what, const CostOverride& priced, OperandList operands) {
  for (const TensorImpl* x : operands) {
    if (x == nullptr)
      what.operands.emplace_back().absent = true;
    else
      what.operands.push_back(view_of(*x));
  }
  KernelWork cost = kernel_cost(what);
  if (priced.bytes) cost.bytes = *priced.bytes;
  if (priced.math) cost.math = *priced.math;
  if (launch_of(what.op) == Launch::gemm) {
    emit_gemm(label, cost);
  } else {
    spend(host_call(launch_of(what.op), in_backward()));
    emit_kernel(label, cost);
  }
  note_module(operands);
  keep_kernel(std::move(what), operands);
}

void Tape::note_module(OperandList operands) {
  for (const TensorImpl* x : operands)
    if (x != nullptr && !x->storage && x->elsewhere.kind == Operand::Kind::parameter) {
      launched_for_.emplace_back(ops_.size() - 1, ParameterId{x->elsewhere.id});
      return;
    }
}

/// For a device that runs it: operands of elementwise kernels as the output's shape, and where each lies.
void Tape::keep_kernel(Kernel what, OperandList operands) {
  if (!options_.keep_kernels) return;
  ProgramKernel made;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) {
      made.where.emplace_back();
      continue;
    }
    if (elementwise(what.op)) what.operands[i] = expanded(*operands[i], operands.front()->shape);
    made.where.push_back(memory_of(*operands[i]));
    FORESHARD_CHECK(made.where.back().kind != Operand::Kind::none, "an operand lies in memory that is known");
  }
  made.kernel = std::move(what);
  ops_.back().kernel_index = static_cast<std::uint32_t>(kernels_.size());
  kernels_.push_back(std::move(made));
}

void Tape::launch(std::string_view label, const Kernel& what, const Tensors& operands) {
  std::vector<const TensorImpl*> list;
  for (const Tensor& x : operands) list.push_back(x.get());
  write_launch(label, what, {}, list);
}

void Tape::launch_sum(std::string_view label, const Tensor& out, const Tensor& x, double alpha,
                      const CostOverride& priced) {
  Shape shape(x->shape.size(), 1);
  Shape strides(x->shape.size(), 1);
  const std::size_t lacking = shape.size() - out->shape.size();
  std::copy(out->shape.begin(), out->shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(lacking));
  std::copy(out->strides.begin(), out->strides.end(), strides.begin() + static_cast<std::ptrdiff_t>(lacking));
  const Tensor whole = alias(out, std::move(shape), std::move(strides), false);
  launch_priced(label, {.op = KernelOp::sum_to, .alpha = alpha}, priced, whole, x);
}

void Tape::launch(Launch kind, std::string_view label, const KernelWork& cost) {
  spend(host_call(kind, in_backward()));
  emit_kernel(label, cost);
}

void Tape::launch_gemm(std::string_view label, std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype,
                       std::uint32_t batch, GemmUse use) {
  emit_gemm(label, gemm_cost(m, n, k, dtype, batch, use));
}

void Tape::launch_fused(Launch kind, std::string_view label, const KernelWork& cost) {
  launch(kind, label, cost);
  fused();
}

void Tape::launch_memset(Bytes bytes) {
  KernelWork cost = bytes_cost(bytes);
  cost.kernel_class = KernelClass::memset;
  emit_kernel("Memset", cost);
  fused();  // counters of the kernel that follows
}

/// All such launches share one description.
void Tape::fused() {
  if (!options_.keep_kernels) return;
  if (fused_ == kNoKernel) {
    fused_ = static_cast<std::uint32_t>(kernels_.size());
    kernels_.emplace_back();
  }
  ops_.back().kernel_index = fused_;
}

void Tape::not_as_described() {
  ops_.back().kernel_index = kNoKernel;
}

void Tape::spend(HostCall call) {
  pending_host_ += host_[call];
  if (dispatched() && is_op(call)) pending_host_ += pytorch_costs::kDispatchedOpHost.time();
}

void Tape::issue_collective(CollectiveKind kind, Bytes bytes, std::string_view label) {
  Op& op = emit(OpKind::collective);
  op.user_stream = kOwnStream;
  op.collective = {kOwnGroup, kind, bytes};
  op.label = labels_.intern(label);
  emit(OpKind::wait_stream).user_stream = kOwnStream;
}

Tensor Tape::all_reduce(const Tensor& x) {
  Tensor out = empty(x->shape, x->dtype);
  copy(out, x, "aten::copy_");
  issue_collective(CollectiveKind::all_reduce, out->bytes(), "_c10d_functional::all_reduce_");
  return out;
}

Tensor Tape::all_to_all(const Tensor& x, std::uint64_t rows) {
  Shape shape = x->shape;
  shape.front() = rows;
  Tensor out = empty(shape, x->dtype);
  spend(in_backward() ? HostCall::backward_all_to_all : HostCall::all_to_all);
  issue_collective(CollectiveKind::all_to_all, std::max(x->bytes(), out->bytes()),
                   "_c10d_functional::all_to_all_single");
  if (!in_backward()) spend(HostCall::all_to_all_wait);
  return out;
}

void Tape::copy(CopyKind kind, Bytes bytes, std::string_view label) {
  spend(host_call(Launch::elementwise, in_backward()));
  Op& op = emit(OpKind::copy);
  op.copy.kind = kind;
  op.copy.bytes = bytes;
  op.copy.label = op.label = labels_.intern(label);
}

void Tape::copy(const Tensor& out, const Tensor& x, std::string_view label) {
  copy(CopyKind::device_to_device, out->bytes(), label);
  keep_kernel({.op = KernelOp::copy, .operands = {view_of(*out), view_of(*x)}},
              std::array<const TensorImpl*, 2>{out.get(), x.get()});
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

/// All or nothing: a step of which one launch is unknown has no results.
void Tape::write_kernels(Program& program) {
  const auto unknown = std::find_if(program.ops.begin(), program.ops.end(),
                                    [](const Op& op) { return launches(op) && op.kernel_index == kNoKernel; });
  if (unknown == program.ops.end()) {
    program.kernels = std::move(kernels_);
    return;
  }
  program.uncomputed = unknown->label;
  for (Op& op : program.ops) op.kernel_index = kNoKernel;
}

}  // namespace foreshard::model
