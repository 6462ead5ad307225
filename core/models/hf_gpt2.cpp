// GPT2LMHeadModel of Hugging Face transformers 5: Conv1D (addmm), gelu_new as a composite, learned positions, sdpa,
// dropout 0, no cache, labels given.
#include <fmt/format.h>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/hf_block_parameters.hpp"
#include "core/models/hf_layers.hpp"

namespace foreshard::model {
namespace {

class HfGpt2 final : public Family {
  enum RootParameter : std::size_t { wte, wpe, ln_f_weight, ln_f_bias, head };

 public:
  explicit HfGpt2(const ModelConfig& config);
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  [[nodiscard]] std::size_t root_parameters() const { return c_.tied_embedding ? 4 : 5; }
  [[nodiscard]] Tensor run_model(WrappedModel& model, const Tensor& tokens) const;
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensor& x) const;
  [[nodiscard]] Tensor attend(WrappedModel& model, std::size_t first, const Tensor& x) const;
  [[nodiscard]] Tensor feed_forward(WrappedModel& model, std::size_t first, const Tensor& x) const;
  [[nodiscard]] Tensor conv1d(WrappedModel& model, std::size_t first, const std::string& name, const Tensor& x) const;
  [[nodiscard]] Tensor norm(WrappedModel& model, std::size_t first, const std::string& name, const Tensor& x) const;

  ModelConfig c_;
  HfBlockParameters block_;
};

HfGpt2::HfGpt2(const ModelConfig& config) : c_(config) {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto f = static_cast<std::int64_t>(c_.ffn);
  const auto both = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t out = shape.back();
    block_.add(name + ".weight", std::move(shape));
    block_.add(name + ".bias", {out});
  };
  both("ln_1", {d});
  both("attn.c_attn", {d, 3 * d});  // Conv1D: input × output
  both("attn.c_proj", {d, d});
  both("ln_2", {d});
  both("mlp.c_fc", {d, f});
  both("mlp.c_proj", {f, d});
}

std::vector<Unit> HfGpt2::units() const {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto vocab = static_cast<std::int64_t>(c_.vocab);
  const auto positions = static_cast<std::int64_t>(c_.positions);
  std::vector<Unit> units{{"",
                           {{"transformer.wte.weight", {vocab, d}, c_.dtype},
                            {"transformer.wpe.weight", {positions, d}, c_.dtype},
                            {"transformer.ln_f.weight", {d}, c_.dtype},
                            {"transformer.ln_f.bias", {d}, c_.dtype}}}};
  if (!c_.tied_embedding) units[0].parameters.push_back({"lm_head.weight", {vocab, d}, c_.dtype});
  for (std::uint32_t i = 0; i < c_.layers; ++i) units.push_back(block_.unit("transformer.h", i, c_.dtype));
  return units;
}

std::vector<ParameterId> HfGpt2::parameters_order() const {
  return hf_parameters_order(root_parameters(), 2, c_.layers * block_.size());
}

Result<void> HfGpt2::check(const Settings& settings, const BatchSize& size) const {
  if (size.seq > c_.positions)
    return fail(ErrorKind::usage,
                fmt::format("{}: seq {} is longer than its {} positions", c_.name, size.seq, c_.positions), {},
                fmt::format("choose a seq of at most {}", c_.positions));
  return hf_check_attention(c_, settings.param_dtype.value_or(c_.dtype));
}

void HfGpt2::setup(SetupWriter& writer, const BatchSize&) const {
  writer.first_wrap();
  writer.to_empty();
  writer.init_normal();
}

Tensors HfGpt2::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch(Launch::random, "aten::randint", bytes_cost(tokens->bytes()));
  return {tokens};
}

/// torch.addmm(bias, x.view(-1, in), weight).view(…)
Tensor HfGpt2::conv1d(WrappedModel& model, std::size_t first, const std::string& name, const Tensor& x) const {
  Tape& tape = model.tape();
  tape.spend(HostCall::module);
  const Tensor& weight = model.parameter(first + block_.index(name + ".weight"));
  const Tensor& bias = model.parameter(first + block_.index(name + ".bias"));
  Shape shape = x->shape;
  shape.back() = weight->dim(1);
  const Tensor flat = view(tape, x, {x->numel() / x->dim(-1), x->dim(-1)});
  return view(tape, addmm(tape, bias, flat, weight), shape);
}

Tensor HfGpt2::norm(WrappedModel& model, std::size_t first, const std::string& name, const Tensor& x) const {
  model.tape().spend(HostCall::module);
  return layer_norm(model.tape(), x, model.parameter(first + block_.index(name + ".weight")),
                    model.parameter(first + block_.index(name + ".bias")));
}

/// GPT2Attention.forward
Tensor HfGpt2::attend(WrappedModel& model, std::size_t first, const Tensor& x) const {
  Tape& tape = model.tape();
  tape.spend(HostCall::module);
  Tensor joined = conv1d(model, first, "attn.c_attn", x);
  Tensors parts = chunk(tape, joined, 2, 3);
  joined.reset();
  const auto heads = [&](std::size_t i) {
    return transpose(tape, view(tape, parts[i], {x->dim(0), x->dim(1), c_.heads, c_.dim / c_.heads}), 1, 2);
  };
  const Tensor q = heads(0);
  const Tensor k = heads(1);
  const Tensor v = heads(2);
  Tensor out = attention(tape, q, k, v, {.causal = true});
  out = contiguous(tape, transpose(tape, out, 1, 2));
  out = reshape(tape, out, x->shape);
  return conv1d(model, first, "attn.c_proj", out);
}

constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = 0.7978845608028654;  ///< √(2 / π)

/// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
Tensor gelu_new(Tape& tape, const Tensor& x) {
  tape.spend(HostCall::module);
  Tensor half = mul_scalar(tape, x, 0.5);
  Tensor now = pow(tape, x, 3);
  const auto becomes = [&](Tensor next) { now = std::move(next); };
  becomes(mul_scalar(tape, now, kGeluCubic));
  becomes(add(tape, x, now));
  becomes(mul_scalar(tape, now, kGeluScale));
  becomes(of_result(tape, now, "aten::tanh"));
  becomes(add_scalar(tape, now, 1));
  Tensor out = mul(tape, half, now);
  half.reset();
  now.reset();
  return out;
}

Tensor HfGpt2::feed_forward(WrappedModel& model, std::size_t first, const Tensor& x) const {
  model.tape().spend(HostCall::module);
  Tensor hidden = conv1d(model, first, "mlp.c_fc", x);
  hidden = gelu_new(model.tape(), hidden);
  return conv1d(model, first, "mlp.c_proj", hidden);
}

/// GPT2Block.forward
Tensor HfGpt2::block(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  Tape& tape = model.tape();
  const std::size_t first = model.root_parameters() + index * block_.size();
  Tensor hidden = norm(model, first, "ln_1", x);
  Tensor attended = attend(model, first, hidden);
  hidden = add(tape, attended, x);
  Tensor residual = hidden;
  hidden = norm(model, first, "ln_2", hidden);
  Tensor fed = feed_forward(model, first, hidden);
  hidden = add(tape, residual, fed);
  residual.reset();
  attended.reset();
  fed.reset();
  return hidden;
}

/// GPT2Model.forward
Tensor HfGpt2::run_model(WrappedModel& model, const Tensor& tokens) const {
  Tape& tape = model.tape();
  tape.spend(HostCall::module);
  Tensor embedded = embedding(tape, model.parameter(wte), tokens);
  Tensor positions = hf_positions(tape, tokens->dim(1));
  tape.spend(HostCall::module);
  Tensor places = embedding(tape, model.parameter(wpe), view(tape, positions, {1, tokens->dim(1)}));
  Tensor hidden = add(tape, embedded, places);
  hf_packed_sequence_check(tape, positions, tokens->dim(0));
  for (std::uint32_t i = 0; i < c_.layers; ++i)
    hidden = model.run_block(i, {hidden}, [&, i](const Tensors& in) { return block(model, i, in[0]); });
  tape.spend(HostCall::module);
  hidden = layer_norm(tape, hidden, model.parameter(ln_f_weight), model.parameter(ln_f_bias));
  positions.reset();
  embedded.reset();
  places.reset();
  return hidden;
}

Tensor HfGpt2::loss(WrappedModel& model, const Tensors& inputs, const BatchSize&) const {
  return hf_causal_lm(model, inputs[0], c_.tied_embedding ? wte : head,
                      [&](const Tensor& tokens) { return run_model(model, tokens); });
}

}  // namespace

std::unique_ptr<Family> make_hf_gpt2(const ModelConfig& config) {
  return std::make_unique<HfGpt2>(config);
}

}  // namespace foreshard::model
