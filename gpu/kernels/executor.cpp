#include "gpu/kernels/executor.hpp"

#include <array>
#include <map>

#include "core/kernel/kernel_op_names.hpp"
#include "gpu/kernels/attention.hpp"
#include "gpu/kernels/elementwise.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/kernels/emulation.hpp"
#include "gpu/kernels/float8.hpp"
#include "gpu/kernels/float8_weights.hpp"
#include "gpu/kernels/foreach.hpp"
#include "gpu/kernels/gemm.hpp"
#include "gpu/kernels/generators.hpp"
#include "gpu/kernels/losses.hpp"
#include "gpu/kernels/norms.hpp"
#include "gpu/kernels/optimizer.hpp"
#include "gpu/kernels/rope.hpp"
#include "gpu/kernels/section_copy.hpp"
#include "gpu/kernels/softmax.hpp"
#include "gpu/kernels/sums.hpp"

namespace foreshard::gpu {
namespace {

/// Which part of this folder runs an op.
enum class Runner : std::uint8_t {
  nothing,
  elementwise,
  sum,
  norm,
  gemm,
  attention,
  embedding,
  loss,
  softmax,
  cat,
  rope,
  section_copy,
  optimizer,
  foreach,
  generator,
  amax,
  cast_float8,
  transpose_float8,
  shard_amaxes,
  copy_in_float8
};

struct Row {
  KernelOp op;
  Runner runner;
};

constexpr std::array kRunners{
    Row{KernelOp::fused, Runner::nothing},
    Row{KernelOp::fill, Runner::elementwise},
    Row{KernelOp::copy, Runner::elementwise},
    Row{KernelOp::add, Runner::elementwise},
    Row{KernelOp::sub, Runner::elementwise},
    Row{KernelOp::mul, Runner::elementwise},
    Row{KernelOp::neg, Runner::elementwise},
    Row{KernelOp::mul_scalar, Runner::elementwise},
    Row{KernelOp::add_scalar, Runner::elementwise},
    Row{KernelOp::silu, Runner::elementwise},
    Row{KernelOp::silu_backward, Runner::elementwise},
    Row{KernelOp::gelu, Runner::elementwise},
    Row{KernelOp::gelu_backward, Runner::elementwise},
    Row{KernelOp::dropout, Runner::elementwise},
    Row{KernelOp::dropout_backward, Runner::elementwise},
    Row{KernelOp::sum_to, Runner::sum},
    Row{KernelOp::layer_norm, Runner::norm},
    Row{KernelOp::layer_norm_backward, Runner::norm},
    Row{KernelOp::layer_norm_backward_weights, Runner::norm},
    Row{KernelOp::rms_norm, Runner::norm},
    Row{KernelOp::rms_norm_backward, Runner::norm},
    Row{KernelOp::rms_norm_backward_weight, Runner::norm},
    Row{KernelOp::gemm, Runner::gemm},
    Row{KernelOp::attention, Runner::attention},
    Row{KernelOp::attention_backward, Runner::attention},
    Row{KernelOp::embedding, Runner::embedding},
    Row{KernelOp::embedding_backward, Runner::embedding},
    Row{KernelOp::log_softmax, Runner::loss},
    Row{KernelOp::log_softmax_backward, Runner::loss},
    Row{KernelOp::nll_loss, Runner::loss},
    Row{KernelOp::nll_loss_backward, Runner::loss},
    Row{KernelOp::cross_entropy, Runner::loss},
    Row{KernelOp::softmax, Runner::softmax},
    Row{KernelOp::softmax_backward, Runner::softmax},
    Row{KernelOp::causal_mask, Runner::softmax},
    Row{KernelOp::cat, Runner::cat},
    Row{KernelOp::rope, Runner::rope},
    Row{KernelOp::rope_backward, Runner::rope},
    Row{KernelOp::swiglu, Runner::elementwise},
    Row{KernelOp::swiglu_backward, Runner::elementwise},
    Row{KernelOp::add_rms_norm, Runner::norm},
    Row{KernelOp::add_rms_norm_backward, Runner::norm},
    Row{KernelOp::copy_in, Runner::section_copy},
    Row{KernelOp::copy_out, Runner::section_copy},
    Row{KernelOp::chunk_cat, Runner::section_copy},
    Row{KernelOp::adam, Runner::optimizer},
    Row{KernelOp::sgd, Runner::optimizer},
    Row{KernelOp::foreach_lerp, Runner::foreach},
    Row{KernelOp::foreach_mul, Runner::foreach},
    Row{KernelOp::foreach_addcmul, Runner::foreach},
    Row{KernelOp::foreach_sqrt, Runner::foreach},
    Row{KernelOp::foreach_div, Runner::foreach},
    Row{KernelOp::foreach_add, Runner::foreach},
    Row{KernelOp::foreach_addcdiv, Runner::foreach},
    Row{KernelOp::random_normal, Runner::generator},
    Row{KernelOp::random_tokens, Runner::generator},
    Row{KernelOp::rotary_cos, Runner::generator},
    Row{KernelOp::rotary_sin, Runner::generator},
    Row{KernelOp::arange, Runner::generator},
    Row{KernelOp::amax, Runner::amax},
    Row{KernelOp::cast_float8, Runner::cast_float8},
    Row{KernelOp::scaled_mm, Runner::gemm},
    Row{KernelOp::transpose_float8, Runner::transpose_float8},
    Row{KernelOp::shard_amaxes, Runner::shard_amaxes},
    Row{KernelOp::copy_in_float8, Runner::copy_in_float8},
};

/// Every op in the enumeration's order, so that one which is forgotten does not compile.
constexpr bool has_every_op() {
  for (std::size_t i = 0; i < kRunners.size(); ++i)
    if (kRunners[i].op != static_cast<KernelOp>(i)) return false;
  return kRunners.size() == static_cast<std::size_t>(KernelOp::copy_in_float8) + 1;
}
static_assert(has_every_op() && kRunners.size() == EnumNames<KernelOp>::kNames.size());

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const ExecutorOptions& options, std::unique_ptr<Gemm> gemm, std::unique_ptr<Attention> attention)
      : options_(options),
        gemm_(std::move(gemm)),
        attention_(std::move(attention)),
        emulation_(options.emulation_scratch) {}

  Result<void> run(const Kernel& kernel, std::span<const Address> addresses, cudaStream_t stream) override {
    if (addresses.size() != kernel.operands.size()) return device_failure("a kernel has as many addresses as operands");
    const Arguments args(kernel, addresses, stream);
    switch (kRunners[static_cast<std::size_t>(kernel.op)].runner) {
      case Runner::nothing:
        return {};
      case Runner::elementwise:
        return run_elementwise(args);
      case Runner::sum:
        return with_workspace(args, run_sum);
      case Runner::norm:
        return with_workspace(args, run_norm);
      case Runner::gemm:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return gemm_->run(a, w); });
      case Runner::attention:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return attention_->run(a, w); });
      case Runner::embedding:
        return run_embedding(args);
      case Runner::loss:
        return with_workspace(args, run_loss);
      case Runner::softmax:
        return run_softmax(args);
      case Runner::cat:
        return run_cat(args);
      case Runner::rope:
        return run_rope(args);
      case Runner::section_copy:
        return run_section_copy(args);
      case Runner::optimizer:
        return run_optimizer(args);
      case Runner::foreach:
        return run_foreach(args);
      case Runner::generator:
        return run_generator(args);
      case Runner::amax:
        return run_amax(args);
      case Runner::cast_float8:
        return run_cast_float8(args);
      case Runner::transpose_float8:
        return run_transpose_float8(args);
      case Runner::shard_amaxes:
        return run_shard_amaxes(args);
      case Runner::copy_in_float8:
        return run_copy_in_float8(args);
    }
    return device_failure("a kernel with no op");
  }

  Result<void> emulate(const KernelWork& work, cudaStream_t stream) override {
    Result<Workspace*> workspace = workspace_of(stream);
    FORESHARD_TRY(workspace);
    return emulation_.run(work, stream, *gemm_, *attention_, **workspace);
  }

  [[nodiscard]] Bytes fixed_bytes() const override {
    Bytes bytes = emulation_.allocated();
    for (const auto& [stream, workspace] : workspaces_) bytes += workspace.allocated();
    return bytes;
  }

  [[nodiscard]] const std::string& attention_refusal() const override { return attention_->refusal(); }

 private:
  template <class Body>
  Result<void> with_workspace(const Arguments& args, const Body& body) {
    Result<Workspace*> workspace = workspace_of(args.stream);
    FORESHARD_TRY(workspace);
    return body(args, **workspace);
  }

  Result<Workspace*> workspace_of(cudaStream_t stream) {
    if (last_ != nullptr && stream == last_stream_) [[likely]]
      return last_;
    Workspace& workspace = workspaces_[stream];
    const Result<void*> reserved = workspace.reserve(options_.gemm_workspace);
    FORESHARD_TRY(reserved);
    last_ = &workspace;
    last_stream_ = stream;
    return last_;
  }

  ExecutorOptions options_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<Attention> attention_;
  Emulation emulation_;
  std::map<cudaStream_t, Workspace> workspaces_;  // looked up by stream; its order reaches no result
  cudaStream_t last_stream_ = nullptr;
  Workspace* last_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(const ExecutorOptions& options) {
  int device = 0;
  FORESHARD_TRY(cuda_status(cudaGetDevice(&device), "cudaGetDevice"));
  Result<std::unique_ptr<Gemm>> gemm = Gemm::create(options.gemm_workspace);
  FORESHARD_TRY(gemm);
  Result<std::unique_ptr<Attention>> attention = Attention::create();
  FORESHARD_TRY(attention);
  return std::make_unique<CudaExecutor>(options, std::move(*gemm), std::move(*attention));
}

}  // namespace foreshard::gpu
