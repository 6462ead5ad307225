// PyTorch's own test model (torch/testing/_internal/distributed/_tensor/common_dtensor.py, Transformer, 2.11): learned
// positions, LayerNorm with bias, dropout of 0.1, attention by SDPA, Linear-GELU-Linear with biases, head tied to the
// embedding; loss sum().
#include <fmt/format.h>

#include "core/models/family.hpp"
#include "core/models/fused_ops.hpp"
#include "core/shard/layout.hpp"

namespace foreshard::model {
namespace {

class TorchTransformer final : public Family {
  static constexpr std::size_t kBlockParameters = 12;
  // Children before the module: attention_norm, attention, ffn_norm, feed_forward.
  enum BlockParameter : std::size_t {
    attention_norm,
    attention_norm_bias,
    wq,
    wk,
    wv,
    wo,
    ffn_norm,
    ffn_norm_bias,
    w1,
    w1_bias,
    w2,
    w2_bias
  };
  enum RootParameter : std::size_t { tok, pos, norm, norm_bias };
  static constexpr std::uint32_t kRootParameters = 4;

 public:
  explicit TorchTransformer(const ModelConfig& config) : c_(config) {}
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensor& x) const;
  [[nodiscard]] Tensor attend(WrappedModel& model, std::size_t first, const Tensor& x) const;
  [[nodiscard]] Tensor feed_forward(WrappedModel& model, std::size_t first, const Tensor& x) const;
  [[nodiscard]] Tensor embed(WrappedModel& model, const Tensor& tokens, const BatchSize& size, Tensor& position) const;
  [[nodiscard]] std::vector<TensorId> shard_unit(SetupWriter& writer, std::size_t unit) const;

  ModelConfig c_;
};

std::vector<Unit> TorchTransformer::units() const {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto f = static_cast<std::int64_t>(c_.ffn);
  std::vector<Unit> units{{"",
                           {{"tok_embeddings.weight", {static_cast<std::int64_t>(c_.vocab), d}, c_.dtype},
                            {"pos_embeddings.weight", {static_cast<std::int64_t>(c_.positions), d}, c_.dtype},
                            {"norm.weight", {d}, c_.dtype},
                            {"norm.bias", {d}, c_.dtype}}}};
  for (std::uint32_t i = 0; i < c_.layers; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    const auto p = [&](std::string_view what, std::vector<std::int64_t> shape) {
      return Parameter{fmt::format("{}.{}", name, what), std::move(shape), c_.dtype};
    };
    units.push_back(
        {name,
         {p("attention_norm.weight", {d}), p("attention_norm.bias", {d}), p("attention.wq.weight", {d, d}),
          p("attention.wk.weight", {d, d}), p("attention.wv.weight", {d, d}), p("attention.wo.weight", {d, d}),
          p("ffn_norm.weight", {d}), p("ffn_norm.bias", {d}), p("feed_forward.w1.weight", {f, d}),
          p("feed_forward.w1.bias", {f}), p("feed_forward.w2.weight", {d, f}), p("feed_forward.w2.bias", {d})}});
  }
  return units;
}

/// tok, pos, blocks, norm; the head is the embedding.
std::vector<ParameterId> TorchTransformer::parameters_order() const {
  std::vector<ParameterId> order{ParameterId{tok}, ParameterId{pos}};
  for (std::uint32_t i = 0; i < c_.layers * kBlockParameters; ++i) order.push_back(ParameterId{kRootParameters + i});
  order.push_back(ParameterId{norm});
  order.push_back(ParameterId{norm_bias});
  return order;
}

Result<void> TorchTransformer::check(const Settings& settings, const BatchSize& size) const {
  if (c_.heads == 0 || c_.dim % c_.heads != 0)
    return fail(ErrorKind::usage, fmt::format("dim {} is not a multiple of {} heads", c_.dim, c_.heads));
  if (settings.param_dtype && itemsize(*settings.param_dtype) == 2)
    return fail(ErrorKind::usage, "torch-transformer is known in float32 only", {}, "leave param_dtype out");
  if (size.seq > c_.positions)
    return fail(ErrorKind::usage,
                fmt::format("seq {} is longer than the model's {} positions", size.seq, c_.positions));
  return {};
}

/// fully_shard of a model on the CPU moves a unit's parameters to the device, chunks them and drops the whole ones.
std::vector<TensorId> TorchTransformer::shard_unit(SetupWriter& writer, std::size_t unit) const {
  std::vector<TensorId> whole;
  std::vector<TensorId> shards;
  const ShardGroup group{writer.settings().shard_ranks(), 0};
  for (const Parameter& p : writer.units()[unit].parameters)
    whole.push_back(writer.alloc(p.numel() * itemsize(p.dtype)));
  for (const Parameter& p : writer.units()[unit].parameters)
    shards.push_back(writer.alloc(local_shard_numel(p, group) * itemsize(p.dtype)));
  for (TensorId tensor : whole) writer.free(tensor);
  return shards;
}

/// The model is built on the CPU, wrapped, and emptied onto the device once more; the head, tied to the embedding, is
/// emptied last and becomes the one weight of both.
void TorchTransformer::setup(SetupWriter& writer, const BatchSize&) const {
  if (writer.settings().offload) return writer.init_normal();
  std::vector<std::vector<TensorId>> shards(writer.units().size());
  for (std::size_t unit = 1; unit < shards.size(); ++unit) shards[unit] = shard_unit(writer, unit);
  shards[0] = shard_unit(writer, 0);
  writer.first_wrap();
  const auto empty = [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) writer.alloc_shard(ParameterId{static_cast<std::uint32_t>(i)});
  };
  const Parameter& embedding = writer.units().front().parameters.front();
  const TensorId replaced =
      writer.alloc(local_shard_numel(embedding, {writer.settings().shard_ranks(), 0}) * itemsize(embedding.dtype));
  empty(pos, 1);
  std::size_t first = kRootParameters;
  for (std::size_t unit = 1; unit < shards.size(); ++unit) {
    empty(first, shards[unit].size());
    first += shards[unit].size();
    for (TensorId tensor : shards[unit]) writer.free(tensor);
  }
  empty(norm, 2);
  empty(tok, 1);
  writer.free(replaced);
  for (TensorId tensor : shards[0]) writer.free(tensor);
  writer.init_normal();
}

Tensors TorchTransformer::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch("aten::randint", random_tokens(c_.vocab), tokens);
  return {tokens};
}

Tensor TorchTransformer::attend(WrappedModel& model, std::size_t first, const Tensor& x) const {
  Tape& tape = model.tape();
  const std::uint64_t b = x->dim(0);
  const std::uint64_t s = x->dim(1);
  const auto project = [&](std::size_t weight) { return linear_layer(tape, x, model.parameter(first + weight)); };
  const auto by_head = [&](const Tensor& projected) {
    return transpose(tape, view(tape, projected, {b, s, c_.heads, c_.head_dim}), 1, 2);
  };
  Tensor q;
  Tensor k;
  Tensor v;
  if (model.settings().kernels == Kernels::fused) {
    Tensors joined =
        joined_linear(tape, view(tape, x, {b * s, c_.dim}),
                      {model.parameter(first + wq), model.parameter(first + wk), model.parameter(first + wv)});
    q = std::move(joined[0]);
    k = std::move(joined[1]);
    v = std::move(joined[2]);
  } else {
    q = project(wq);
    k = project(wk);
    v = project(wv);
  }
  q = by_head(q);
  k = by_head(k);
  v = by_head(v);
  const Tensor output = attention(tape, q, k, v, {true, c_.dropout});  // is_causal=use_attn_mask, True by itself
  const Tensor merged = view(tape, contiguous(tape, transpose(tape, output, 1, 2)), {b, s, c_.dim});
  const Tensor out = linear_layer(tape, merged, model.parameter(first + wo));
  tape.spend(HostCall::module);
  return dropout(tape, out, c_.dropout);
}

Tensor TorchTransformer::feed_forward(WrappedModel& model, std::size_t first, const Tensor& x) const {
  Tape& tape = model.tape();
  Tensor hidden = linear_layer(tape, x, model.parameter(first + w1), model.parameter(first + w1_bias));
  tape.spend(HostCall::module);
  Tensor active = activation(tape, hidden, "aten::gelu");
  hidden.reset();
  const Tensor out = linear_layer(tape, active, model.parameter(first + w2), model.parameter(first + w2_bias));
  active.reset();
  tape.spend(HostCall::module);
  return dropout(tape, out, c_.dropout);
}

Tensor TorchTransformer::block(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  Tape& tape = model.tape();
  const std::size_t first = model.root_parameters() + index * kBlockParameters;
  const auto normed = [&](const Tensor& in, std::size_t weight) {
    tape.spend(HostCall::module);
    return layer_norm(tape, in, model.parameter(first + weight), model.parameter(first + weight + 1));
  };
  Tensor h;
  {
    const Tensor attended = attend(model, first, normed(x, attention_norm));
    h = add(tape, x, attended);
  }
  const Tensor change = feed_forward(model, first, normed(h, ffn_norm));
  return add(tape, h, change);
}

Tensor TorchTransformer::embed(WrappedModel& model, const Tensor& tokens, const BatchSize& size,
                               Tensor& position) const {
  Tape& tape = model.tape();
  tape.spend(HostCall::module);
  Tensor h = embedding(tape, model.parameter(tok), tokens);
  const Tensor range = tape.empty({size.seq}, DType::int64);
  tape.launch("aten::arange", KernelOp::arange, range);
  tape.spend(HostCall::module);
  position = embedding(tape, model.parameter(pos), range);
  h = add(tape, h, position);
  tape.spend(HostCall::module);
  return dropout(tape, h, c_.dropout);
}

Tensor TorchTransformer::loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const {
  Tape& tape = model.tape();
  Tensor out;
  {
    Tensor tokens = inputs[0];
    model.root_pre_forward({&tokens});
    Tensor position;
    Tensor h = embed(model, tokens, size, position);
    for (std::uint32_t i = 0; i < c_.layers; ++i)
      h = model.run_block(i, {h}, [&, i](const Tensors& in) { return block(model, i, in[0]); });
    tape.spend(HostCall::module);
    h = layer_norm(tape, h, model.parameter(norm), model.parameter(norm_bias));
    tape.spend(HostCall::module);
    out = linear(tape, h, model.parameter(tok));
    h.reset();
    position.reset();
    model.root_post_forward(out);
  }
  Tensor loss = sum_all(tape, out);
  out.reset();
  return loss;
}

}  // namespace

std::unique_ptr<Family> make_torch_transformer(const ModelConfig& config) {
  return std::make_unique<TorchTransformer>(config);
}

}  // namespace foreshard::model
