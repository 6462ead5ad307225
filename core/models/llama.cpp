// A plain PyTorch Llama: nn.RMSNorm, rotary tables of the script's, SDPA with enable_gqa, SwiGLU, cross-entropy of
// float32 logits. The Python it mirrors stands in docs/models.md; every reset below is a name that goes there.
#include <fmt/format.h>

#include "core/models/family.hpp"
#include "core/models/float8_ops.hpp"
#include "core/models/llama_compiled.hpp"
#include "core/models/llama_fused.hpp"
#include "core/models/parallel_linear.hpp"

namespace foreshard::model {
namespace {

constexpr double kRotaryBase = 500'000;

/// rope(x, cos, sin).
Tensor rope(Tape& tape, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor wide = to(tape, x, DType::float32);
  Tensors halves = chunk(tape, wide, -1, 2);
  const Tensor& a = halves[0];
  const Tensor& b = halves[1];
  const auto combine = [&](const Tensor& u, const Tensor& v, bool minus) {
    Tensor left = mul(tape, u, cos);
    const Tensor right = mul(tape, v, sin);
    Tensor out = minus ? sub(tape, left, right) : add(tape, left, right);
    left.reset();
    return out;
  };
  Tensor joined;
  {
    Tensors parts{combine(a, b, true), combine(b, a, false)};
    joined = cat(tape, parts, -1);
    parts.pop_back();  // a tuple drops its items from the end
  }
  Tensor out = to(tape, joined, x->dtype);
  joined.reset();
  return out;
}

/// A layer whose output features, or input features, tensor parallelism divides.
Tensor column(const WrappedModel& model, const Tensor& x, std::size_t weight) {
  const bool divided = model.settings().tensor_parallel > 1;
  return divided ? column_linear(model.tape(), x, model.parameter(weight))
                 : linear_layer(model.tape(), x, model.parameter(weight));
}
Tensor row(const WrappedModel& model, const Tensor& x, std::size_t weight) {
  const bool divided = model.settings().tensor_parallel > 1;
  return divided ? row_linear(model.tape(), x, model.parameter(weight))
                 : linear_layer(model.tape(), x, model.parameter(weight));
}

/// Names of Block.forward; members are destroyed from the last on, as a Python frame drops them from the first on.
struct Locals {
  Tensor o, v, k, q, h, x;
};

class Llama final : public Family {
  static constexpr std::size_t kBlockParameters = 9;
  enum BlockParameter : std::size_t { attn_norm, wq, wk, wv, wo, ffn_norm, w1, w3, w2 };
  enum RootParameter : std::size_t { tok, norm, head };

 public:
  explicit Llama(const ModelConfig& config) : c_(config) {}
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  [[nodiscard]] bool compiles(const Settings& settings) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const;
  [[nodiscard]] Tensor attend(WrappedModel& model, std::size_t first, const Tensors& inputs, Locals& l) const;
  [[nodiscard]] LlamaBlock whole_block(const WrappedModel& model, std::uint32_t index, const Tensor& cos,
                                       const Tensor& sin) const;
  [[nodiscard]] Tensor fused_loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const;
  [[nodiscard]] Tensor rotary_table(const WrappedModel& model, std::size_t which, const BatchSize& size) const;

  ModelConfig c_;
};

std::vector<Unit> Llama::units() const {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto f = static_cast<std::int64_t>(c_.ffn);
  const auto q = static_cast<std::int64_t>(c_.heads * c_.head_dim);
  const auto kv = static_cast<std::int64_t>(c_.kv_heads * c_.head_dim);
  const auto vocab = static_cast<std::int64_t>(c_.vocab);
  std::vector<Unit> units{
      {"",
       {{"tok.weight", {vocab, d}, c_.dtype}, {"norm.weight", {d}, c_.dtype}, {"head.weight", {vocab, d}, c_.dtype}}}};
  for (std::uint32_t i = 0; i < c_.layers; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    const auto p = [&](std::string_view what, std::vector<std::int64_t> shape) {
      return Parameter{fmt::format("{}.{}.weight", name, what), std::move(shape), c_.dtype};
    };
    units.push_back({name,
                     {p("attn_norm", {d}), p("wq", {q, d}), p("wk", {kv, d}), p("wv", {kv, d}), p("wo", {d, q}),
                      p("ffn_norm", {d}), p("w1", {f, d}), p("w3", {f, d}), p("w2", {d, f})}});
  }
  return units;
}

std::vector<ParameterId> Llama::parameters_order() const {
  std::vector<ParameterId> order{ParameterId{tok}};
  for (std::uint32_t i = 0; i < c_.layers * kBlockParameters; ++i) order.push_back(ParameterId{3 + i});
  order.push_back(ParameterId{norm});
  order.push_back(ParameterId{head});
  return order;
}

/// float8 GEMMs take the blocks' weights and tokens as they are: nothing is padded.
Result<void> Llama::check(const Settings& settings, const BatchSize& size) const {
  if (settings.float8 == Float8::none) return {};
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorKind::usage, std::move(what), "--float8", std::move(hint));
  };
  if (settings.param_dtype.value_or(c_.dtype) != DType::bfloat16)
    return refuse(fmt::format("{} computes in {}, and what is cast to float8 is bfloat16", c_.name, name(c_.dtype)),
                  "take --param-dtype bfloat16");
  const std::pair<const char*, std::uint64_t> extents[] = {{"dim", c_.dim},
                                                           {"ffn", c_.ffn},
                                                           {"heads x head_dim", c_.heads * c_.head_dim},
                                                           {"kv_heads x head_dim", c_.kv_heads * c_.head_dim},
                                                           {"batch x seq", size.batch * size.seq}};
  for (const auto& [what, extent] : extents)
    if (extent % kFloat8Multiple != 0)
      return refuse(fmt::format("{} of {} is {}, no multiple of {}, which float8 GEMMs ask for", what, c_.name, extent,
                                kFloat8Multiple),
                    "choose another size, or leave out --float8");
  return {};
}

bool Llama::compiles(const Settings& settings) const {
  return itemsize(settings.param_dtype.value_or(c_.dtype)) == 2 && settings.checkpoint == Checkpoint::none &&
         c_.frozen.empty() && c_.lora.rank == 0;
}

void Llama::setup(SetupWriter& writer, const BatchSize& size) const {
  writer.first_wrap();
  writer.to_empty();
  writer.init_normal();
  const std::uint64_t half = c_.head_dim / 2;
  const Bytes wide = half * itemsize(DType::float32);
  // 1.0 / (500000.0 ** (torch.arange(0, hd, 2).float() / hd))
  const TensorId range = writer.alloc(half * itemsize(DType::int64));
  const TensorId numbers = writer.alloc(wide);
  writer.free(range);
  const TensorId quotient = writer.alloc(wide);
  writer.free(numbers);
  const TensorId power = writer.alloc(wide);
  writer.scratch(itemsize(DType::float64));  // the base as a tensor
  writer.free(quotient);
  const TensorId reciprocal = writer.alloc(wide);
  writer.alloc(wide);
  writer.free(reciprocal);
  writer.free(power);
  // torch.outer(torch.arange(seq).float(), freq), cos, sin
  const TensorId positions = writer.alloc(size.seq * itemsize(DType::int64));
  const TensorId as_float = writer.alloc(size.seq * itemsize(DType::float32));
  writer.free(positions);
  writer.alloc(size.seq * wide);
  writer.free(as_float);
  for (const KernelOp table : {KernelOp::rotary_cos, KernelOp::rotary_sin}) {
    writer.hand_over(writer.alloc(size.seq * wide));
    writer.filled_with({.op = table, .scalars = {kRotaryBase}}, {size.seq, half}, DType::float32);
  }
}

Tensors Llama::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch("aten::randint", random_tokens(c_.vocab), tokens);
  return {tokens};
}

/// cos (0) or sin (1): made in setup, so no memory of the step's.
Tensor Llama::rotary_table(const WrappedModel& model, std::size_t which, const BatchSize& size) const {
  return Tape::elsewhere({Operand::Kind::setup, model.from_setup(which).value}, {size.seq, c_.head_dim / 2},
                         DType::float32);
}

/// Block.forward up to the residual; leaves o, v, k, q and the first h to the caller, whose locals they are.
Tensor Llama::attend(WrappedModel& model, std::size_t first, const Tensors& inputs, Locals& l) const {
  Tape& tape = model.tape();
  const Tensor& x = inputs[0];
  const std::uint64_t b = x->dim(0);
  const std::uint64_t s = x->dim(1);
  tape.spend(HostCall::module);
  l.h = rms_norm(tape, x, model.parameter(first + attn_norm));
  const auto heads = [&](std::size_t weight, std::uint64_t count) {
    const Tensor projected = column(model, l.h, first + weight);
    return transpose(tape, view(tape, projected, {b, s, count, c_.head_dim}), 1, 2);
  };
  l.q = heads(wq, c_.heads);
  l.k = heads(wk, c_.kv_heads);
  l.v = heads(wv, c_.kv_heads);
  {
    Tensor turned_q = rope(tape, l.q, inputs[1], inputs[2]);
    Tensor turned_k = rope(tape, l.k, inputs[1], inputs[2]);
    l.k = std::move(turned_k);  // CPython stores a swapped pair from the last name on
    l.q = std::move(turned_q);
  }
  l.o = attention(tape, l.q, l.k, l.v, {});
  Tensor merged = reshape(tape, transpose(tape, l.o, 1, 2), {b, s, c_.heads * c_.head_dim});
  Tensor projected = row(model, merged, first + wo);
  merged.reset();
  Tensor out = add(tape, x, projected);
  projected.reset();
  return out;
}

Tensor Llama::block(WrappedModel& model, std::uint32_t index, const Tensors& inputs) const {
  Tape& tape = model.tape();
  const std::size_t first = model.root_parameters() + index * kBlockParameters;
  Locals l;
  l.x = attend(model, first, inputs, l);
  tape.spend(HostCall::module);
  l.h = rms_norm(tape, l.x, model.parameter(first + ffn_norm));
  Tensor gate = column(model, l.h, first + w1);
  Tensor active = activation(tape, gate, "aten::silu");
  gate.reset();
  Tensor up = column(model, l.h, first + w3);
  Tensor product = mul(tape, active, up);
  active.reset();
  up.reset();
  Tensor down = row(model, product, first + w2);
  product.reset();
  Tensor out = add(tape, l.x, down);
  down.reset();
  return out;
}

LlamaBlock Llama::whole_block(const WrappedModel& model, std::uint32_t index, const Tensor& cos,
                              const Tensor& sin) const {
  const std::size_t first = model.root_parameters() + index * kBlockParameters;
  const auto p = [&](BlockParameter which) { return model.parameter(first + which); };
  return {p(attn_norm),           p(wq), p(wk), p(wv), p(wo), p(ffn_norm), p(w1), p(w3), p(w2), c_.head_dim, cos, sin,
          model.settings().float8};
}

/// Tables stay in float32, so FSDP2 has no inputs to cast. A block leaves its last addition to the next norm, but where
/// blocks are checkpointed: their inputs are kept, and one tensor is less than two.
Tensor Llama::fused_loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const {
  Tape& tape = model.tape();
  const bool closed = model.settings().checkpoint != Checkpoint::none;
  Tensor logits;
  {
    Tensor tokens = inputs[0];
    model.root_pre_forward({&tokens});
    tape.spend(HostCall::module);
    Tensors x{embedding(tape, model.parameter(tok), tokens, false)};
    for (std::uint32_t i = 0; i < c_.layers; ++i)
      x = model.run_block_of_many(i, std::move(x), [this, &model, &tape, i, size, closed](Tensors& in) {
        return fused_llama_block(
            tape, whole_block(model, i, rotary_table(model, 0, size), rotary_table(model, 1, size)), in, closed);
      });
    const AddedNorm last = closed ? add_rms_norm(tape, x[0], nullptr, model.parameter(norm))
                                  : add_rms_norm(tape, x[1], x[0], model.parameter(norm));
    x.clear();
    logits = linear(tape, last.out, model.parameter(head));
    model.root_post_forward(logits);
  }
  const std::uint64_t rows = size.batch * size.seq;
  const Tensor target = tape.empty({rows}, DType::int64);
  tape.launch("aten::zeros", {.op = KernelOp::fill, .alpha = 0}, target);
  return fused_cross_entropy(tape, view(tape, logits, {rows, c_.vocab}), target);
}

Tensor Llama::loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const {
  if (model.settings().kernels == Kernels::fused) return fused_loss(model, inputs, size);
  Tape& tape = model.tape();
  const bool compiled = c_.compiled && compiles(model.settings());
  Tensor logits;
  {
    Tensor tokens = inputs[0];
    Tensor cos = rotary_table(model, 0, size);
    Tensor sin = rotary_table(model, 1, size);
    model.root_pre_forward({&tokens, &cos, &sin});
    tape.spend(HostCall::module);
    Tensor x = embedding(tape, model.parameter(tok), tokens);
    for (std::uint32_t i = 0; i < c_.layers; ++i)
      x = model.run_block(i, {x, cos, sin}, [&, i, compiled](const Tensors& in) {  // run again in backward
        return compiled ? compiled_llama_block(tape, whole_block(model, i, in[1], in[2]), in[0]) : block(model, i, in);
      });
    tape.spend(HostCall::module);
    Tensor normed = rms_norm(tape, x, model.parameter(norm));
    logits = linear_layer(tape, normed, model.parameter(head));
    normed.reset();
    model.root_post_forward(logits);
  }
  const std::uint64_t rows = size.batch * size.seq;
  Tensor wide = to(tape, view(tape, logits, {rows, c_.vocab}), DType::float32);
  Tensor target = tape.empty({rows}, DType::int64);
  tape.launch("aten::zeros", {.op = KernelOp::fill, .alpha = 0}, target);
  Tensor loss = cross_entropy(tape, wide, target);
  target.reset();
  wide.reset();
  logits.reset();
  return loss;
}

}  // namespace

std::unique_ptr<Family> make_llama(const ModelConfig& config) {
  return std::make_unique<Llama>(config);
}

}  // namespace foreshard::model
