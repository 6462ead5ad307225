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

  Result<void> run(const Computation& computation, std::span<const Address> addresses, cudaStream_t stream) override {
    if (addresses.size() != computation.operands.size())
      return device_failure("a computation has as many addresses as operands");
    const Arguments args(computation, addresses, stream);
    switch (computation.function) {
      case Function::included:
        return {};
      case Function::sum_to:
        return with_workspace(args, run_sum);
      case Function::layer_norm:
      case Function::layer_norm_backward:
      case Function::layer_norm_backward_weights:
      case Function::rms_norm:
      case Function::rms_norm_backward:
      case Function::rms_norm_backward_weight:
      case Function::add_rms_norm:
      case Function::add_rms_norm_backward:
        return with_workspace(args, run_norm);
      case Function::log_softmax:
      case Function::log_softmax_backward:
      case Function::nll_loss:
      case Function::nll_loss_backward:
      case Function::cross_entropy:
        return with_workspace(args, run_loss);
      case Function::softmax:
      case Function::softmax_backward:
      case Function::causal_mask:
        return run_softmax(args);
      case Function::gemm:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return gemm_->run(a, w); });
      case Function::attention:
      case Function::attention_backward:
        return with_workspace(args, [this](const Arguments& a, Workspace& w) { return attention_->run(a, w); });
      case Function::embedding:
      case Function::embedding_backward:
        return run_embedding(args);
      case Function::cat:
        return run_cat(args);
      case Function::rope:
      case Function::rope_backward:
        return run_rope(args);
      case Function::copy_in:
      case Function::copy_out:
      case Function::chunk_cat:
        return run_section_copy(args);
      case Function::adam:
      case Function::sgd:
        return run_optimizer(args);
      case Function::foreach_lerp:
      case Function::foreach_mul:
      case Function::foreach_addcmul:
      case Function::foreach_sqrt:
      case Function::foreach_div:
      case Function::foreach_add:
      case Function::foreach_addcdiv:
        return run_foreach(args);
      case Function::random_normal:
      case Function::random_tokens:
      case Function::rotary_cos:
      case Function::rotary_sin:
      case Function::arange:
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
