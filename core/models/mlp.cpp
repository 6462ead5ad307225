// pytorch#147168's stack: LayerNorm without bias, `layers` × (x + fc2(gelu(fc1(x)))), LayerNorm; loss mean().
#include <fmt/format.h>

#include "core/models/family.hpp"

namespace foreshard::model {
namespace {

class Mlp final : public Family {
 public:
  explicit Mlp(const ModelConfig& config) : c_(config) {}
  [[nodiscard]] std::vector<Unit> units() const override;
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return c_.layers; }
  [[nodiscard]] Result<void> check(const Settings&, const BatchSize&) const override { return {}; }
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  [[nodiscard]] Tensor block(WrappedModel& model, std::uint32_t index, const Tensor& x) const;

  ModelConfig c_;
};

std::vector<Unit> Mlp::units() const {
  const auto d = static_cast<std::int64_t>(c_.dim);
  const auto f = static_cast<std::int64_t>(c_.ffn);
  std::vector<Unit> units{{"", {{"pre_norm.weight", {d}, c_.dtype}, {"post_norm.weight", {d}, c_.dtype}}}};
  for (std::uint32_t i = 0; i < c_.layers; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    units.push_back({name, {{name + ".fc1.weight", {f, d}, c_.dtype}, {name + ".fc2.weight", {d, f}, c_.dtype}}});
  }
  return units;
}

std::vector<ParameterId> Mlp::parameters_order() const {
  std::vector<ParameterId> order{ParameterId{0}};
  for (std::uint32_t i = 0; i < 2 * c_.layers; ++i) order.push_back(ParameterId{2 + i});
  order.push_back(ParameterId{1});
  return order;
}

void Mlp::setup(SetupWriter& writer, const BatchSize&) const {
  writer.first_wrap();
  writer.to_empty();
  writer.init_normal();
}

Tensors Mlp::inputs(Tape& tape, const BatchSize& size) const {
  Tensor x = tape.empty({size.batch, c_.dim}, DType::float32);
  tape.launch("aten::randn", {.op = KernelOp::random_normal, .integers = {kStreamOfStep, 0}}, x);
  return {x};
}

Tensor Mlp::block(WrappedModel& model, std::uint32_t index, const Tensor& x) const {
  Tape& tape = model.tape();
  const std::size_t first = model.root_parameters() + 2 * index;
  Tensor hidden = linear_layer(tape, x, model.parameter(first));
  tape.spend(HostCall::module);
  Tensor active = activation(tape, hidden, "aten::gelu");
  hidden.reset();
  Tensor out = linear_layer(tape, active, model.parameter(first + 1));
  active.reset();
  return out;
}

Tensor Mlp::loss(WrappedModel& model, const Tensors& inputs, const BatchSize&) const {
  Tape& tape = model.tape();
  Tensor out;
  {
    Tensor given = inputs[0];
    model.root_pre_forward({&given});
    tape.spend(HostCall::module);
    Tensor x = layer_norm(tape, given, model.parameter(0), nullptr);
    for (std::uint32_t i = 0; i < c_.layers; ++i) {
      const Tensor change = model.run_block(i, {x}, [&, i](const Tensors& in) { return block(model, i, in[0]); });
      x = add(tape, x, change);
    }
    tape.spend(HostCall::module);
    out = layer_norm(tape, x, model.parameter(1), nullptr);
    model.root_post_forward(out);
  }
  Tensor loss = mean_all(tape, out);
  out.reset();
  return loss;
}

}  // namespace

std::unique_ptr<Family> make_mlp(const ModelConfig& config) {
  return std::make_unique<Mlp>(config);
}

}  // namespace foreshard::model
