// LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and MixtralForCausalLM of Hugging Face transformers 5: sdpa,
// no cache, labels given. The names that Python drops go in the same order here.
#include <fmt/format.h>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/hf_block_parameters.hpp"
#include "core/models/hf_decoder_block.hpp"
#include "core/models/hf_experts.hpp"

namespace foreshard::model {
namespace {

class HfDecoder final : public Family {
  enum RootParameter : std::size_t { embed, norm, head };

 public:
  explicit HfDecoder(const ModelConfig& config);
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  [[nodiscard]] std::size_t root_parameters() const { return c_.tied_embedding ? 2 : 3; }
  [[nodiscard]] bool experts() const { return c_.family == ModelFamily::hf_mixtral; }
  /// Qwen's models keep the arguments of their masks in a dictionary, the embedding's output first.
  [[nodiscard]] bool keeps_mask_arguments() const {
    return c_.family == ModelFamily::hf_qwen2 || c_.family == ModelFamily::hf_qwen3;
  }
  [[nodiscard]] Tensor run_model(WrappedModel& model, const Tensor& tokens) const;
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const;
  [[nodiscard]] Tensor mix(WrappedModel& model, std::size_t first, const Tensor& x) const;
  [[nodiscard]] Tensor named(const WrappedModel& model, std::size_t first, std::string_view name) const;
  [[nodiscard]] HfLinear layer(const WrappedModel& model, std::size_t first, const std::string& name) const;
  [[nodiscard]] HfAttention attention_of(const WrappedModel& model, std::size_t first) const;

  ModelConfig c_;
  HfBlockParameters block_;
};

HfDecoder::HfDecoder(const ModelConfig& config) : c_(config) {
  const std::uint64_t q = c_.heads * c_.head_dim;
  const std::uint64_t kv = c_.kv_heads * c_.head_dim;
  const auto width = static_cast<std::int64_t>(c_.dim);
  const auto head_width = static_cast<std::int64_t>(c_.head_dim);
  block_.add_linear("self_attn.q_proj", q, c_.dim, c_.attention_bias);
  block_.add_linear("self_attn.k_proj", kv, c_.dim, c_.attention_bias);
  block_.add_linear("self_attn.v_proj", kv, c_.dim, c_.attention_bias);
  block_.add_linear("self_attn.o_proj", c_.dim, q, c_.attention_bias && c_.family != ModelFamily::hf_qwen2);
  if (c_.family == ModelFamily::hf_qwen3) {
    block_.add("self_attn.q_norm.weight", {head_width});
    block_.add("self_attn.k_norm.weight", {head_width});
  }
  if (experts()) {
    const auto count = static_cast<std::int64_t>(c_.experts);
    const auto ffn = static_cast<std::int64_t>(c_.ffn);
    block_.add("mlp.gate.weight", {count, width});
    block_.add("mlp.experts.gate_up_proj", {count, 2 * ffn, width});
    block_.add("mlp.experts.down_proj", {count, width, ffn});
  } else {
    block_.add_linear("mlp.gate_proj", c_.ffn, c_.dim, c_.mlp_bias);
    block_.add_linear("mlp.up_proj", c_.ffn, c_.dim, c_.mlp_bias);
    block_.add_linear("mlp.down_proj", c_.dim, c_.ffn, c_.mlp_bias);
  }
  block_.add("input_layernorm.weight", {width});
  block_.add("post_attention_layernorm.weight", {width});
}

std::vector<Unit> HfDecoder::units() const {
  const auto width = static_cast<std::int64_t>(c_.dim);
  const auto vocab = static_cast<std::int64_t>(c_.vocab);
  std::vector<Unit> units{
      {"", {{"model.embed_tokens.weight", {vocab, width}, c_.dtype}, {"model.norm.weight", {width}, c_.dtype}}}};
  if (!c_.tied_embedding) units[0].parameters.push_back({"lm_head.weight", {vocab, width}, c_.dtype});
  for (std::uint32_t i = 0; i < c_.layers; ++i) units.push_back(block_.unit("model.layers", i, c_.dtype));
  return units;
}

std::vector<ParameterId> HfDecoder::parameters_order() const {
  return hf_parameters_order(root_parameters(), 1, c_.layers * block_.size());
}

Result<void> HfDecoder::check(const Settings& settings, const BatchSize&) const {
  const DType compute = settings.param_dtype.value_or(c_.dtype);
  if (experts() && itemsize(compute) != 2)
    return fail(ErrorKind::usage, fmt::format("{}: grouped products of experts need a 16-bit dtype", c_.name), {},
                "choose param_dtype bfloat16");
  return hf_check_attention(c_, compute);
}

void HfDecoder::setup(SetupWriter& writer, const BatchSize&) const {
  // inv_freq and original_inv_freq, moved to the GPU by fully_shard and kept by the script over to_empty.
  constexpr int kBuffers = 2;
  const Bytes bytes = c_.head_dim / 2 * itemsize(DType::float32);
  std::vector<TensorId> moved;
  for (int i = 0; i < kBuffers; ++i) moved.push_back(writer.alloc(bytes));
  for (int i = 0; i < kBuffers; ++i) writer.alloc(bytes);
  writer.first_wrap();
  const std::size_t before_head = writer.order().size() - (c_.tied_embedding ? 0 : 1);
  for (std::size_t i = 0; i < writer.order().size(); ++i) {
    if (i == before_head) break;
    if (!writer.settings().offload) writer.alloc_shard(writer.order()[i]);
  }
  for (const TensorId old : moved) {  // …RotaryEmbedding stands between the norm and the head
    if (!writer.settings().offload) writer.alloc(bytes);
    writer.free(old);
  }
  if (before_head < writer.order().size() && !writer.settings().offload) writer.alloc_shard(writer.order().back());
  writer.init_normal();
}

Tensors HfDecoder::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch(Launch::random, "aten::randint", bytes_cost(tokens->bytes()));
  return {tokens};
}

Tensor HfDecoder::named(const WrappedModel& model, std::size_t first, std::string_view name) const {
  return model.parameter(first + block_.index(name));
}

HfLinear HfDecoder::layer(const WrappedModel& model, std::size_t first, const std::string& name) const {
  HfLinear out{named(model, first, name + ".weight"), nullptr};
  if (block_.has(name + ".bias")) out.bias = named(model, first, name + ".bias");
  return out;
}

HfAttention HfDecoder::attention_of(const WrappedModel& model, std::size_t first) const {
  HfAttention out{layer(model, first, "self_attn.q_proj"),
                  layer(model, first, "self_attn.k_proj"),
                  layer(model, first, "self_attn.v_proj"),
                  layer(model, first, "self_attn.o_proj"),
                  nullptr,
                  nullptr};
  if (c_.family != ModelFamily::hf_qwen3) return out;
  out.q_norm = named(model, first, "self_attn.q_norm.weight");
  out.k_norm = named(model, first, "self_attn.k_norm.weight");
  return out;
}

/// self.mlp
Tensor HfDecoder::mix(WrappedModel& model, std::size_t first, const Tensor& x) const {
  if (experts())
    return hf_experts(model.tape(),
                      {named(model, first, "mlp.gate.weight"), named(model, first, "mlp.experts.gate_up_proj"),
                       named(model, first, "mlp.experts.down_proj"), c_.experts_per_token},
                      x);
  return hf_feed_forward(
      model.tape(),
      {layer(model, first, "mlp.gate_proj"), layer(model, first, "mlp.up_proj"), layer(model, first, "mlp.down_proj")},
      x);
}

/// …DecoderLayer.forward; `inputs`: hidden states, cos, sin.
Tensor HfDecoder::block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const {
  Tape& tape = model.tape();
  const std::size_t first = model.root_parameters() + index * block_.size();
  Tensor residual = inputs[0];
  Tensor hidden = hf_rms_norm(tape, residual, named(model, first, "input_layernorm.weight"));
  hidden = hf_attention(tape, c_, attention_of(model, first), hidden, {inputs[1], inputs[2]});
  hidden = add(tape, residual, hidden);
  residual = hidden;
  hidden = hf_rms_norm(tape, hidden, named(model, first, "post_attention_layernorm.weight"));
  hidden = mix(model, first, hidden);
  hidden = add(tape, residual, hidden);
  residual.reset();
  return hidden;
}

/// …Model.forward
Tensor HfDecoder::run_model(WrappedModel& model, const Tensor& tokens) const {
  Tape& tape = model.tape();
  tape.spend(HostCall::module);
  Tensor embedded = embedding(tape, model.parameter(embed), tokens);
  Tensor positions = hf_positions(tape, tokens->dim(1));
  hf_packed_sequence_check(tape, positions, tokens->dim(0));
  Tensor hidden = embedded;
  RotaryTables tables = hf_rotary_tables(tape, positions, {c_.head_dim, embedded->dtype, model.settings().offload});
  for (std::uint32_t i = 0; i < c_.layers; ++i)
    hidden =
        model.run_block(i, {hidden, tables.cos, tables.sin}, [&, i](const Tensors& in) { return block(model, i, in); });
  hidden = hf_rms_norm(tape, hidden, model.parameter(norm));
  if (keeps_mask_arguments()) embedded.reset();
  positions.reset();
  embedded.reset();
  return hidden;
}

Tensor HfDecoder::loss(WrappedModel& model, const Tensors& inputs, const BatchSize&) const {
  return hf_causal_lm(model, inputs[0], c_.tied_embedding ? embed : head,
                      [&](const Tensor& tokens) { return run_model(model, tokens); });
}

}  // namespace

std::unique_ptr<Family> make_hf_decoder(const ModelConfig& config) {
  return std::make_unique<HfDecoder>(config);
}

}  // namespace foreshard::model
