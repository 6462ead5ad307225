// MPT of llm-foundry: learned positions, LayerNorm in the compute dtype (low_precision_layernorm), fused Wqkv, flash
// attention, GELU, head tied to the embedding, flash-attn's fused cross-entropy. Mirrors llm-foundry 0.5
// (llmfoundry/models/mpt/modeling_mpt.py, layers/blocks.py, layers/attention.py) with what Composer's trainer adds; no
// recording of it exists, so its memory is an estimate.
#include <fmt/format.h>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/family.hpp"

namespace foreshard::model {
namespace {

/// flash_attn.losses.cross_entropy.CrossEntropyLoss: rows read once, a loss and a log-sum-exp a row in float32; the
/// gradient is written from the saved logits.
Tensor flash_cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels) {
  const auto back = [&tape](Node& node, const Tensors&) {
    const Tensor kept = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(kept);
    tape.launch(Launch::reduction, "flash_attn::cross_entropy_backward",
                bytes_cost(kept->bytes() + out->bytes(), MemoryAccess::contiguous, out->numel(), out->dtype));
    return Tensors{out};
  };
  const NodePtr node = tape.record({logits}, back);
  const Tensor losses = tape.empty({logits->dim(0)}, DType::float32);
  const Tensor log_sum = tape.empty({logits->dim(0)}, DType::float32);
  tape.launch(Launch::reduction, "flash_attn::cross_entropy_forward",
              bytes_cost(logits->bytes() + labels->bytes() + losses->bytes() + log_sum->bytes(), MemoryAccess::row,
                         logits->numel(), logits->dtype));
  tape.save(node, logits);
  tape.save(node, log_sum);
  tape.save(node, labels);
  Tape::attach(node, losses);
  return losses;
}

/// Composer's train metrics, LanguageCrossEntropy and LanguagePerplexity: each a cross-entropy of the logits cast to
/// float32 (autocast), in every microbatch (composer/trainer/trainer.py, _eval_train_metrics). They run after backward
/// there.
void train_metrics(Tape& tape, const Tensor& logits) {
  for (int metric = 0; metric < 2; ++metric) {
    const Tensor wide = run_kernel(tape, {logits}, logits->shape, DType::float32, "aten::_to_copy");
    const Tensor scores = tape.empty(logits->shape, DType::float32);
    tape.launch(Launch::reduction, "aten::_log_softmax",
                bytes_cost(3 * wide->bytes() + scores->bytes(), MemoryAccess::row, scores->numel(), DType::float32));
    static_cast<void>(run_kernel(tape, {}, {}, DType::float32, "aten::nll_loss_forward", Launch::reduction));
  }
}

enum class Rows : std::uint8_t { take = 0, put = 1 };

/// torch.gather or index_put into zeros, by token; the other one in backward (flash_attn/bert_padding.py).
Tensor move_rows(Tape& tape, const Tensor& x, Rows how) {
  const auto run = [&tape](const Tensor& from, Rows now) {
    Tensor out = tape.empty(from->shape, from->dtype);
    if (now == Rows::put) {
      tape.launch(Launch::elementwise, "aten::zeros",
                  bytes_cost(out->bytes(), MemoryAccess::contiguous, out->numel(), out->dtype));
    }
    tape.launch(Launch::elementwise, now == Rows::put ? "aten::index_put_" : "aten::gather",
                bytes_cost(2 * out->bytes(), MemoryAccess::gather, out->numel(), out->dtype));
    return out;
  };
  const auto back = [run, how](Node&, const Tensors& gradients) {
    return Tensors{run(gradients[0], how == Rows::put ? Rows::take : Rows::put)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run(x, how);
  Tape::attach(node, out);
  return out;
}

/// unpad_input: nonzero() and max().item() make the host wait.
Tensor unpad(Tape& tape, const Tensor& x) {
  const std::uint64_t tokens = x->dim(0) * x->dim(1);
  const Tensor lengths = run_kernel(tape, {}, {x->dim(0)}, DType::int32, "aten::sum", Launch::reduction);
  const Tensor indices = run_kernel(tape, {}, {tokens}, DType::int64, "aten::nonzero");
  tape.synchronize();
  static_cast<void>(run_kernel(tape, {lengths}, {}, DType::int32, "aten::max", Launch::reduction));
  tape.synchronize();
  return move_rows(tape, view(tape, x, {tokens, x->dim(2)}), Rows::take);
}

class Mpt final : public Family {
  enum RootParameter : std::size_t { wte, wpe, norm_f };
  /// The block's modules, in the order of its parameters; with biases each is a weight and a bias.
  enum BlockModule : std::size_t { norm_1, qkv, out_proj, norm_2, up_proj, down_proj, block_modules };

 public:
  explicit Mpt(const ModelConfig& config) : c_(config), with_bias_(config.attention_bias || config.mlp_bias) {}
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  /// A module's weight and bias (null without biases).
  struct Pair {
    Tensor weight;
    Tensor bias;
  };
  [[nodiscard]] std::size_t each() const { return with_bias_ ? 2 : 1; }
  [[nodiscard]] std::size_t root_parameters() const { return norm_f + each(); }
  [[nodiscard]] Pair module(const WrappedModel& model, std::uint32_t block, BlockModule which) const;
  [[nodiscard]] Tensor attend(WrappedModel& model, std::uint32_t index, const Tensor& x) const;
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensor& input) const;

  ModelConfig c_;
  bool with_bias_;
};

std::vector<Unit> Mpt::units() const {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto f = static_cast<std::int64_t>(c_.ffn);
  const auto add = [&](Unit& unit, const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t out = shape.front();
    unit.parameters.push_back({name + ".weight", std::move(shape), c_.dtype});
    if (with_bias_) unit.parameters.push_back({name + ".bias", {out}, c_.dtype});
  };
  Unit root{"",
            {{"transformer.wte.weight", {static_cast<std::int64_t>(c_.vocab), d}, c_.dtype},
             {"transformer.wpe.weight", {static_cast<std::int64_t>(c_.positions), d}, c_.dtype}}};
  add(root, "transformer.norm_f", {d});
  std::vector<Unit> units{root};
  for (std::uint32_t i = 0; i < c_.layers; ++i) {
    Unit unit{fmt::format("transformer.blocks.{}", i), {}};
    add(unit, unit.name + ".norm_1", {d});
    add(unit, unit.name + ".attn.Wqkv", {3 * d, d});
    add(unit, unit.name + ".attn.out_proj", {d, d});
    add(unit, unit.name + ".norm_2", {d});
    add(unit, unit.name + ".ffn.up_proj", {f, d});
    add(unit, unit.name + ".ffn.down_proj", {d, f});
    units.push_back(std::move(unit));
  }
  return units;
}

std::vector<ParameterId> Mpt::parameters_order() const {
  std::vector<ParameterId> order{ParameterId{wte}, ParameterId{wpe}};
  const auto root = static_cast<std::uint32_t>(root_parameters());
  const auto all = static_cast<std::uint32_t>(c_.layers * block_modules * each());
  for (std::uint32_t i = 0; i < all; ++i) order.push_back(ParameterId{root + i});
  for (auto i = static_cast<std::uint32_t>(norm_f); i < root; ++i) order.push_back(ParameterId{i});
  return order;
}

Result<void> Mpt::check(const Settings& settings, const BatchSize& size) const {
  if (size.seq > c_.positions)
    return fail(ErrorKind::usage,
                fmt::format("{}: seq {} is longer than its {} positions", c_.name, size.seq, c_.positions), {},
                fmt::format("choose a seq of at most {}", c_.positions));
  if (itemsize(settings.param_dtype.value_or(c_.dtype)) != 2)
    return fail(ErrorKind::usage, "flash attention computes in 16 bits", {}, "choose param_dtype bfloat16");
  return {};
}

void Mpt::setup(SetupWriter& writer, const BatchSize&) const {
  writer.first_wrap();
  writer.to_empty();
  writer.init_normal();
}

Tensors Mpt::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.copy(CopyKind::host_to_device, tokens->bytes(), "aten::_to_copy");
  Tensor labels = tape.empty({size.batch, size.seq}, DType::int64);
  tape.copy(CopyKind::host_to_device, labels->bytes(), "aten::_to_copy");
  return {tokens, labels};
}

Mpt::Pair Mpt::module(const WrappedModel& model, std::uint32_t block, BlockModule which) const {
  const std::size_t at = root_parameters() + (block * block_modules + which) * each();
  return {model.parameter(at), with_bias_ ? model.parameter(at + 1) : nullptr};
}

/// GroupedQueryAttention.forward: q, k and v are views of the joined product, which attn_impl flash copies.
Tensor Mpt::attend(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  Tape& tape = model.tape();
  const std::uint64_t b = x->dim(0);
  const std::uint64_t s = x->dim(1);
  tape.spend(HostCall::module);
  const Pair joined = module(model, index, qkv);
  Tensors parts = chunk(tape, linear(tape, x, joined.weight, joined.bias), -1, 3);
  const auto heads = [&](const Tensor& part) {
    const Tensor rows = c_.packs_tokens ? unpad(tape, part) : part;
    return transpose(tape, view(tape, rows, {b, s, c_.heads, c_.head_dim}), 1, 2);
  };
  const Tensor q = heads(parts[0]);
  const Tensor k = heads(parts[1]);
  const Tensor v = heads(parts[2]);
  parts.clear();
  const Tensor o = attention(tape, q, k, v, {});
  Tensor merged = reshape(tape, transpose(tape, o, 1, 2), {b, s, c_.dim});
  if (c_.packs_tokens) merged = move_rows(tape, merged, Rows::put);
  tape.spend(HostCall::module);
  const Pair out = module(model, index, out_proj);
  return linear(tape, merged, out.weight, out.bias);
}

/// MPTBlock.forward; its dropouts have p = 0 and return their input.
Tensor Mpt::block(WrappedModel& model, std::uint32_t index, const Tensor& input) const {
  Tape& tape = model.tape();
  const auto norm = [&](BlockModule which, const Tensor& x) {
    tape.spend(HostCall::module);
    const Pair p = module(model, index, which);
    return layer_norm(tape, x, p.weight, p.bias);
  };
  Tensor x;
  {
    const Tensor a = norm(norm_1, input);
    tape.spend(HostCall::module);
    const Tensor change = attend(model, index, a);
    x = add(tape, input, change);
  }
  const Tensor m = norm(norm_2, x);
  tape.spend(HostCall::module);
  const Pair up = module(model, index, up_proj);
  Tensor hidden = linear(tape, m, up.weight, up.bias);
  Tensor active = activation(tape, hidden, "aten::gelu");
  hidden.reset();
  const Pair down = module(model, index, down_proj);
  const Tensor change = linear(tape, active, down.weight, down.bias);
  active.reset();
  return add(tape, x, change);
}

Tensor Mpt::loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const {
  Tape& tape = model.tape();
  Tensor logits;
  {
    Tensor tokens = inputs[0];
    model.root_pre_forward({&tokens});
    tape.spend(HostCall::module);
    Tensor x = embedding(tape, model.parameter(wte), tokens);
    {
      const Tensor positions = run_kernel(tape, {}, {1, size.seq}, DType::int64, "aten::arange");
      const Tensor learned = embedding(tape, model.parameter(wpe), positions);
      x = add(tape, x, learned);
    }
    for (std::uint32_t i = 0; i < c_.layers; ++i)
      x = model.run_block(i, {x}, [&, i](const Tensors& in) { return block(model, i, in[0]); });
    tape.spend(HostCall::module);
    const Tensor normed =
        layer_norm(tape, x, model.parameter(norm_f), with_bias_ ? model.parameter(norm_f + 1) : nullptr);
    logits = linear(tape, normed, model.parameter(wte));
    model.root_post_forward(logits);
  }
  const std::uint64_t rows = size.batch * size.seq;
  const Tensor targets = run_kernel(tape, {inputs[1]}, {rows}, DType::int64, "aten::roll");
  const Tensor flat = view(tape, logits, {rows, c_.vocab});
  train_metrics(tape, tape.detach(flat));
  const Tensor losses = flash_cross_entropy(tape, flat, targets);
  logits.reset();
  return mean_all(tape, losses);
}

}  // namespace

std::unique_ptr<Family> make_mpt(const ModelConfig& config) {
  return std::make_unique<Mpt>(config);
}

}  // namespace foreshard::model
