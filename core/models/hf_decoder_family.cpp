// LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM and
// DeepseekV3ForCausalLM of Hugging Face transformers 5: sdpa, no cache, labels given. The names that Python drops go in
// the same order here.
#include <fmt/format.h>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/expert_parallel.hpp"
#include "core/models/hf_block_parameters.hpp"
#include "core/models/hf_decoder_block.hpp"
#include "core/models/hf_experts.hpp"
#include "core/models/hf_latent_attention.hpp"

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
  [[nodiscard]] Result<void> check_window(std::uint64_t seq) const;
  /// One that the GPU holds, and how many parameters stand before it in the order of modules.
  struct Buffer {
    Bytes bytes;
    std::size_t parameters_before;
  };
  [[nodiscard]] std::vector<Buffer> buffers() const;
  [[nodiscard]] std::size_t root_parameters() const { return c_.tied_embedding ? 2 : 3; }
  [[nodiscard]] bool normalises_heads() const {
    return c_.family == ModelFamily::hf_qwen3 || c_.family == ModelFamily::hf_qwen3_moe;
  }
  /// Qwen's models keep the arguments of their masks in a dictionary, the embedding's output first.
  [[nodiscard]] bool keeps_mask_arguments() const {
    return c_.family == ModelFamily::hf_qwen2 || c_.family == ModelFamily::hf_qwen3;
  }
  [[nodiscard]] Tensor run_model(WrappedModel& model, const Tensor& tokens) const;
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const;
  [[nodiscard]] Tensor mix(WrappedModel& model, std::uint32_t index, const Tensor& x) const;
  [[nodiscard]] Tensor mix_experts(WrappedModel& model, std::uint32_t index, const Tensor& x) const;
  [[nodiscard]] Tensor named(const WrappedModel& model, std::uint32_t index, std::string_view name) const;
  [[nodiscard]] HfLinear layer(const WrappedModel& model, std::uint32_t index, const std::string& name) const;
  [[nodiscard]] HfAttention attention_of(const WrappedModel& model, std::uint32_t index) const;
  [[nodiscard]] HfLatentAttention latent_attention_of(const WrappedModel& model, std::uint32_t index) const;
  [[nodiscard]] HfFeedForward feed_forward_of(const WrappedModel& model, std::uint32_t index,
                                              const std::string& module) const;
  [[nodiscard]] Tensor attend(WrappedModel& model, std::uint32_t index, const Tensors& inputs, const Tensor& x) const;
  [[nodiscard]] HfBlockParameters parameters_of(bool experts) const;
  void add_attention(HfBlockParameters& out) const;
  void add_latent_attention(HfBlockParameters& out) const;
  void add_feed_forward(HfBlockParameters& out, const std::string& module, std::uint64_t ffn) const;
  void add_experts(HfBlockParameters& out) const;
  [[nodiscard]] bool latent() const { return c_.latent.kv_rank > 0; }
  /// Of the rotary tables.
  [[nodiscard]] std::uint64_t rotary_width() const { return latent() ? c_.latent.rope : c_.head_dim; }
  [[nodiscard]] const HfBlockParameters& block_of(std::uint32_t index) const {
    return c_.has_experts(index) ? sparse_ : dense_;
  }

  ModelConfig c_;
  HfBlockParameters dense_;         // of a block without experts
  HfBlockParameters sparse_;        // … and with them
  std::vector<std::size_t> first_;  // by block: its first parameter among those of all blocks; then their number
};

HfDecoder::HfDecoder(const ModelConfig& config)
    : c_(config), dense_(parameters_of(false)), sparse_(parameters_of(true)), first_{0} {
  for (std::uint32_t i = 0; i < c_.layers; ++i) first_.push_back(first_.back() + block_of(i).size());
}

void HfDecoder::add_attention(HfBlockParameters& out) const {
  const std::uint64_t q = c_.heads * c_.head_dim;
  const std::uint64_t kv = c_.kv_heads * c_.head_dim;
  const auto head_width = static_cast<std::int64_t>(c_.head_dim);
  out.add_linear("self_attn.q_proj", q, c_.dim, c_.attention_bias);
  out.add_linear("self_attn.k_proj", kv, c_.dim, c_.attention_bias);
  out.add_linear("self_attn.v_proj", kv, c_.dim, c_.attention_bias);
  out.add_linear("self_attn.o_proj", c_.dim, q, c_.attention_bias && c_.family != ModelFamily::hf_qwen2);
  if (!normalises_heads()) return;
  out.add("self_attn.q_norm.weight", {head_width});
  out.add("self_attn.k_norm.weight", {head_width});
}

/// DeepseekV3Attention.__init__
void HfDecoder::add_latent_attention(HfBlockParameters& out) const {
  const LatentAttention& l = c_.latent;
  const std::uint64_t q = c_.heads * l.query();
  if (l.q_rank == 0) {
    out.add_linear("self_attn.q_proj", q, c_.dim, false);
  } else {
    out.add_linear("self_attn.q_a_proj", l.q_rank, c_.dim, c_.attention_bias);
    out.add("self_attn.q_a_layernorm.weight", {static_cast<std::int64_t>(l.q_rank)});
    out.add_linear("self_attn.q_b_proj", q, l.q_rank, false);
  }
  out.add_linear("self_attn.kv_a_proj_with_mqa", l.kv_rank + l.rope, c_.dim, c_.attention_bias);
  out.add("self_attn.kv_a_layernorm.weight", {static_cast<std::int64_t>(l.kv_rank)});
  out.add_linear("self_attn.kv_b_proj", c_.heads * (l.nope + l.value), l.kv_rank, false);
  out.add_linear("self_attn.o_proj", c_.dim, c_.heads * l.value, c_.attention_bias);
}

void HfDecoder::add_feed_forward(HfBlockParameters& out, const std::string& module, std::uint64_t ffn) const {
  out.add_linear(module + ".gate_proj", ffn, c_.dim, c_.mlp_bias);
  out.add_linear(module + ".up_proj", ffn, c_.dim, c_.mlp_bias);
  out.add_linear(module + ".down_proj", c_.dim, ffn, c_.mlp_bias);
}

/// Router, routed and shared experts. Mixtral's block has its router first.
void HfDecoder::add_experts(HfBlockParameters& out) const {
  const auto count = static_cast<std::int64_t>(c_.experts);
  const std::int64_t local = count / c_.expert_ranks;
  const auto width = static_cast<std::int64_t>(c_.dim);
  const auto ffn = static_cast<std::int64_t>(c_.ffn);
  const bool router_first = c_.family == ModelFamily::hf_mixtral;
  if (router_first) out.add("mlp.gate.weight", {count, width});
  out.add("mlp.experts.gate_up_proj", {local, 2 * ffn, width}, c_.expert_ranks > 1);
  out.add("mlp.experts.down_proj", {local, width, ffn}, c_.expert_ranks > 1);
  if (!router_first) out.add("mlp.gate.weight", {count, width});
  if (c_.shared_experts > 0) add_feed_forward(out, "mlp.shared_experts", c_.ffn * c_.shared_experts);
}

HfBlockParameters HfDecoder::parameters_of(bool experts) const {
  HfBlockParameters out;
  const auto width = static_cast<std::int64_t>(c_.dim);
  latent() ? add_latent_attention(out) : add_attention(out);
  experts ? add_experts(out) : add_feed_forward(out, "mlp", c_.dense_ffn > 0 ? c_.dense_ffn : c_.ffn);
  out.add("input_layernorm.weight", {width});
  out.add("post_attention_layernorm.weight", {width});
  return out;
}

std::vector<Unit> HfDecoder::units() const {
  const auto width = static_cast<std::int64_t>(c_.dim);
  const auto vocab = static_cast<std::int64_t>(c_.vocab);
  std::vector<Unit> units{
      {"", {{"model.embed_tokens.weight", {vocab, width}, c_.dtype}, {"model.norm.weight", {width}, c_.dtype}}}};
  if (!c_.tied_embedding) units[0].parameters.push_back({"lm_head.weight", {vocab, width}, c_.dtype});
  for (std::uint32_t i = 0; i < c_.layers; ++i) units.push_back(block_of(i).unit("model.layers", i, c_.dtype));
  return units;
}

std::vector<ParameterId> HfDecoder::parameters_order() const {
  return hf_parameters_order(root_parameters(), 1, first_.back());
}

/// From the window's length on there is a mask (transformers 5, masking_utils.py, _ignore_causal_mask_sdpa), which only
/// another kernel takes.
Result<void> HfDecoder::check_window(std::uint64_t seq) const {
  if (c_.sliding_window == 0 || seq < c_.sliding_window) return {};
  return fail(ErrorKind::usage,
              fmt::format("{}: attention in a sliding window of {} tokens is not modelled for sequences of {}", c_.name,
                          c_.sliding_window, seq),
              {},
              fmt::format("sequences below {} run without a mask and are; \"sliding_window\": null in the "
                          "configuration plans attention over the whole sequence",
                          c_.sliding_window));
}

Result<void> HfDecoder::check(const Settings& settings, const BatchSize& size) const {
  FORESHARD_TRY(check_window(size.seq));
  const DType compute = settings.param_dtype.value_or(c_.dtype);
  if (c_.experts > 0 && itemsize(compute) != 2)
    return fail(ErrorKind::usage, fmt::format("{}: grouped products of experts need a 16-bit dtype", c_.name), {},
                "choose param_dtype bfloat16");
  return hf_check_attention(c_, compute);
}

std::vector<HfDecoder::Buffer> HfDecoder::buffers() const {
  std::vector<Buffer> out;
  for (std::uint32_t i = 0; i < c_.layers && c_.expert_groups > 0; ++i) {  // e_score_correction_bias
    if (!c_.has_experts(i)) continue;
    out.push_back({c_.experts * itemsize(DType::float32), 1 + first_[i] + sparse_.index("mlp.gate.weight") + 1});
  }
  // inv_freq and original_inv_freq of the …RotaryEmbedding, which stands between the norm and the head
  const std::size_t before_head = root_parameters() + first_.back() - (c_.tied_embedding ? 0 : 1);
  for (int i = 0; i < 2; ++i) out.push_back({rotary_width() / 2 * itemsize(DType::float32), before_head});
  return out;
}

void HfDecoder::setup(SetupWriter& writer, const BatchSize&) const {
  // Buffers are moved to the GPU by fully_shard and kept by the script over to_empty, which makes them again.
  const bool offload = writer.settings().offload;
  const std::vector<Buffer> all = buffers();
  std::vector<TensorId> moved;
  for (const Buffer& buffer : all) moved.push_back(writer.alloc(buffer.bytes));
  for (const Buffer& buffer : all) writer.alloc(buffer.bytes);
  writer.first_wrap();
  std::size_t made = 0;
  for (std::size_t i = 0; i <= writer.order().size(); ++i) {
    for (; made < all.size() && all[made].parameters_before == i; ++made) {
      if (!offload) writer.alloc(all[made].bytes);
      writer.free(moved[made]);
    }
    if (i < writer.order().size() && !offload) writer.alloc_shard(writer.order()[i]);
  }
  writer.init_normal();
}

Tensors HfDecoder::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch(Launch::random, "aten::randint", bytes_cost(tokens->bytes()));
  return {tokens};
}

Tensor HfDecoder::named(const WrappedModel& model, std::uint32_t index, std::string_view name) const {
  return model.parameter(model.root_parameters() + first_[index] + block_of(index).index(name));
}

HfLinear HfDecoder::layer(const WrappedModel& model, std::uint32_t index, const std::string& name) const {
  HfLinear out{named(model, index, name + ".weight"), nullptr};
  if (block_of(index).has(name + ".bias")) out.bias = named(model, index, name + ".bias");
  return out;
}

HfAttention HfDecoder::attention_of(const WrappedModel& model, std::uint32_t index) const {
  HfAttention out{layer(model, index, "self_attn.q_proj"),
                  layer(model, index, "self_attn.k_proj"),
                  layer(model, index, "self_attn.v_proj"),
                  layer(model, index, "self_attn.o_proj"),
                  nullptr,
                  nullptr};
  if (!normalises_heads()) return out;
  out.q_norm = named(model, index, "self_attn.q_norm.weight");
  out.k_norm = named(model, index, "self_attn.k_norm.weight");
  return out;
}

HfLatentAttention HfDecoder::latent_attention_of(const WrappedModel& model, std::uint32_t index) const {
  HfLatentAttention out;
  if (c_.latent.q_rank == 0) {
    out.q = layer(model, index, "self_attn.q_proj");
  } else {
    out.q_a = layer(model, index, "self_attn.q_a_proj");
    out.q_a_norm = named(model, index, "self_attn.q_a_layernorm.weight");
    out.q_b = layer(model, index, "self_attn.q_b_proj");
  }
  out.kv_a = layer(model, index, "self_attn.kv_a_proj_with_mqa");
  out.kv_a_norm = named(model, index, "self_attn.kv_a_layernorm.weight");
  out.kv_b = layer(model, index, "self_attn.kv_b_proj");
  out.o = layer(model, index, "self_attn.o_proj");
  return out;
}

/// self.self_attn
Tensor HfDecoder::attend(WrappedModel& model, std::uint32_t index, const Tensors& inputs, const Tensor& x) const {
  const RotaryTables tables{inputs[1], inputs[2]};
  if (latent()) return hf_latent_attention(model.tape(), c_, latent_attention_of(model, index), x, tables);
  return hf_attention(model.tape(), c_, attention_of(model, index), x, tables);
}

HfFeedForward HfDecoder::feed_forward_of(const WrappedModel& model, std::uint32_t index,
                                         const std::string& module) const {
  return {layer(model, index, module + ".gate_proj"), layer(model, index, module + ".up_proj"),
          layer(model, index, module + ".down_proj")};
}

Tensor HfDecoder::mix_experts(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  HfExperts weights{named(model, index, "mlp.gate.weight"),
                    named(model, index, "mlp.experts.gate_up_proj"),
                    named(model, index, "mlp.experts.down_proj"),
                    c_.experts_per_token,
                    c_.scores_add_up,
                    c_.family == ModelFamily::hf_qwen3_moe,
                    c_.expert_groups,
                    c_.expert_groups_per_token};
  if (c_.shared_experts > 0) weights.shared = feed_forward_of(model, index, "mlp.shared_experts");
  RunRows elsewhere;
  if (c_.expert_ranks > 1)
    elsewhere = [&](const Tensor& rows, const Tensor& counts) {
      return run_dispatched(model, index, weights, rows, counts);
    };
  return hf_experts(model.tape(), weights, x, elsewhere);
}

/// self.mlp
Tensor HfDecoder::mix(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  if (c_.has_experts(index)) return mix_experts(model, index, x);
  return hf_feed_forward(model.tape(), feed_forward_of(model, index, "mlp"), x);
}

/// …DecoderLayer.forward; `inputs`: hidden states, cos, sin.
Tensor HfDecoder::block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const {
  Tape& tape = model.tape();
  Tensor residual = inputs[0];
  Tensor hidden = hf_rms_norm(tape, residual, named(model, index, "input_layernorm.weight"));
  hidden = attend(model, index, inputs, hidden);
  hidden = add(tape, residual, hidden);
  residual = hidden;
  hidden = hf_rms_norm(tape, hidden, named(model, index, "post_attention_layernorm.weight"));
  hidden = mix(model, index, hidden);
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
  RotaryTables tables = hf_rotary_tables(tape, positions, {rotary_width(), embedded->dtype, model.settings().offload});
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
