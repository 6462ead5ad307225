#include "gpu/kernels/executor.hpp"

#include <map>

#include "gpu/kernels/attention.hpp"
#include "gpu/kernels/elementwise.hpp"
#include "gpu/kernels/emulation.hpp"
#include "gpu/kernels/gemm.hpp"
#include "gpu/kernels/norms.hpp"
#include "gpu/kernels/reductions.hpp"
#include "gpu/kernels/rope.hpp"
#include "gpu/kernels/section_copy.hpp"

namespace foreshard::gpu {
namespace {

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const ExecutorOptions& options, std::unique_ptr<Gemm> gemm, std::unique_ptr<Attention> attention)
      : options_(options),
        gemm_(std::move(gemm)),
        attention_(std::move(attention)),
        emulation_(options.emulation_scratch) {}

  Result<void> run(const Kernel& computation, std::span<const Address> addresses, cudaStream_t stream) override {
    if (addresses.size() != computation.operands.size())
      return device_failure("a computation has as many addresses as operands");
    const Arguments args(computation, addresses, stream);
    switch (computation.op) {
      case KernelOp::fused:
        return {};
      case KernelOp::sum_to:
        return with_workspace(args, run_sum);
      case KernelOp::layer_norm:
      case KernelOp::layer_norm_backward:
      case KernelOp::layer_norm_backward_weights:
      case KernelOp::rms_norm:
      case KernelOp::rms_norm_backward:
      case KernelOp::rms_norm_backward_weight:
      case KernelOp::add_rms_norm:
      case KernelOp::add_rms_norm_backward:
        return with_workspace(args, run_norm);
      case KernelOp::log_softmax:
      case KernelOp::log_softmax_backward:
      case KernelOp::nll_loss:
      case KernelOp::nll_loss_backward:
      case KernelOp::cross_entropy:
        return with_workspace(args, run_loss);
      case KernelOp::softmax:
      case KernelOp::softmax_backward:
      case KernelOp::causal_mask:
        return run_softmax(args);
      case KernelOp::gemm:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return gemm_->run(a, w); });
      case KernelOp::attention:
      case KernelOp::attention_backward:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return attention_->run(a, w); });
      case KernelOp::embedding:
      case KernelOp::embedding_backward:
        return run_embedding(args);
      case KernelOp::cat:
        return run_cat(args);
      case KernelOp::rope:
      case KernelOp::rope_backward:
        return run_rope(args);
      case KernelOp::copy_in:
      case KernelOp::copy_out:
      case KernelOp::chunk_cat:
        return run_section_copy(args);
      case KernelOp::adam:
      case KernelOp::sgd:
        return run_optimizer(args);
      case KernelOp::foreach_lerp:
      case KernelOp::foreach_mul:
      case KernelOp::foreach_addcmul:
      case KernelOp::foreach_sqrt:
      case KernelOp::foreach_div:
      case KernelOp::foreach_add:
      case KernelOp::foreach_addcdiv:
        return run_foreach(args);
      case KernelOp::random_normal:
      case KernelOp::random_tokens:
      case KernelOp::rotary_cos:
      case KernelOp::rotary_sin:
      case KernelOp::arange:
        return run_generator(args);
      default:
        return run_elementwise(args);
    }
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
