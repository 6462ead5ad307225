// What a model family tells the generator: its units, its setup and one microbatch's forward.
//
// Who: generate.cpp; one implementation for each family (mlp.cpp, llama.cpp, torch_transformer.cpp, hf_*.cpp).
#pragma once

#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"
#include "core/models/ops.hpp"
#include "core/models/setup.hpp"
#include "core/models/wrapped_model.hpp"

namespace foreshard::model {

/// Sizes of one microbatch on this rank.
struct BatchSize {
  std::uint64_t batch = 1;
  std::uint64_t seq = 1;
};

class Family {
 public:
  virtual ~Family() = default;
  /// One unit a block, root first, parameters in fully_shard's order.
  [[nodiscard]] virtual std::vector<Unit> units() const = 0;
  /// Positions in `units` (counted over all units) in model.parameters() order.
  [[nodiscard]] virtual std::vector<ParameterId> parameters_order() const = 0;
  [[nodiscard]] virtual std::uint32_t blocks() const = 0;
  /// Why it cannot run so; usage errors only.
  [[nodiscard]] virtual Result<void> check(const Settings& settings, const BatchSize& size) const = 0;
  /// Whether its blocks are compiled ones already (ModelConfig::compiled): else fuse.hpp derives them from eager ones.
  [[nodiscard]] virtual bool compiles(const Settings&) const { return false; }
  /// Before the first step: from process start on.
  virtual void setup(SetupWriter& writer, const BatchSize& size) const = 0;
  /// The tensors that the data loader makes for a microbatch.
  [[nodiscard]] virtual Tensors inputs(Tape& tape, const BatchSize& size) const = 0;
  /// The wrapped model's forward and the loss. `inputs` are the caller's.
  [[nodiscard]] virtual Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const = 0;
};

[[nodiscard]] std::unique_ptr<Family> make_mlp(const ModelConfig& config);
[[nodiscard]] std::unique_ptr<Family> make_llama(const ModelConfig& config);
[[nodiscard]] std::unique_ptr<Family> make_mpt(const ModelConfig& config);
[[nodiscard]] std::unique_ptr<Family> make_states_only(const ModelConfig& config);
[[nodiscard]] std::unique_ptr<Family> make_torch_transformer(const ModelConfig& config);
/// Hugging Face's llama, qwen2, qwen3 and mixtral.
[[nodiscard]] std::unique_ptr<Family> make_hf_decoder(const ModelConfig& config);
[[nodiscard]] std::unique_ptr<Family> make_hf_gpt2(const ModelConfig& config);

}  // namespace foreshard::model
