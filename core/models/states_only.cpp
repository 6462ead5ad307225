// A model of which only the parameters are known: their shards, gradients, optimizer states and FSDP2's buffers are
// exact; its blocks' compute is estimated as one GEMM of all tokens with each parameter, forward, and two in
// backward (6 FLOP a parameter and token), and there are no activations. Embedding tables are looked up, not
// multiplied.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/family.hpp"
#include "core/workload/embedding_table.hpp"

namespace foreshard::model {
namespace {

class StatesOnly final : public Family {
 public:
  explicit StatesOnly(const ModelConfig& config) : c_(config) {}
  [[nodiscard]] std::vector<Unit> units() const override { return c_.units; }
  [[nodiscard]] std::vector<ParameterId> parameters_order() const override;
  [[nodiscard]] std::uint32_t blocks() const override { return static_cast<std::uint32_t>(c_.units.size() - 1); }
  [[nodiscard]] Result<void> check(const Settings& settings, const BatchSize& size) const override;
  void setup(SetupWriter& writer, const BatchSize& size) const override;
  [[nodiscard]] Tensors inputs(Tape& tape, const BatchSize& size) const override;
  [[nodiscard]] Tensor loss(WrappedModel& model, const Tensors& inputs, const BatchSize& size) const override;

 private:
  /// One product for each of `parameters`, as one autograd node on `x` and them.
  static Tensor estimate(WrappedModel& model, const Tensor& x, const Tensors& parameters, bool lookup,
                         std::uint64_t tokens);
  [[nodiscard]] Tensors root_parameters(const WrappedModel& model, bool embeddings) const;

  ModelConfig c_;
};

std::vector<ParameterId> StatesOnly::parameters_order() const {
  std::vector<ParameterId> order;
  for (const Unit& unit : c_.units)
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      order.push_back(ParameterId{static_cast<std::uint32_t>(order.size())});
  return order;
}

Result<void> StatesOnly::check(const Settings& settings, const BatchSize&) const {
  if (settings.checkpoint == Checkpoint::none) return {};
  return fail(ErrorKind::usage, fmt::format("{}: no activations are known that checkpointing could leave out", c_.name),
              {}, "plan from its config.json or a recorded step");
}

void StatesOnly::setup(SetupWriter& writer, const BatchSize&) const {
  writer.first_wrap();
  writer.to_empty();
  writer.init_normal();
}

Tensors StatesOnly::inputs(Tape& tape, const BatchSize& size) const {
  Tensor tokens = tape.empty({size.batch, size.seq}, DType::int64);
  tape.launch(Launch::random, "aten::randint", bytes_cost(tokens->bytes()));
  return {tokens};
}

Tensors StatesOnly::root_parameters(const WrappedModel& model, bool embeddings) const {
  Tensors out;
  const std::vector<Parameter>& root = c_.units.front().parameters;
  for (std::size_t i = 0; i < root.size(); ++i)
    if (is_embedding_table(root[i]) == embeddings) out.push_back(model.parameter(i));
  return out;
}

Tensor StatesOnly::estimate(WrappedModel& model, const Tensor& x, const Tensors& parameters, bool lookup,
                            std::uint64_t tokens) {
  Tape& tape = model.tape();
  const auto compute = [tokens, lookup](Tape& on, const Tensor& p, int products) {
    const std::uint64_t rows = p->shape.front();
    const std::uint64_t width = p->numel() / rows;
    for (int i = 0; i < products; ++i) {
      if (lookup)
        on.launch(Launch::embedding, "estimated embedding", bytes_cost(2 * tokens * width * itemsize(p->dtype)));
      else if (width > 1)
        on.launch_gemm("estimated product", tokens, rows, width, p->dtype);
      else
        on.launch(Launch::reduction, "estimated vector op", bytes_cost(2 * tokens * rows * itemsize(p->dtype)));
    }
  };
  Tensors inputs;
  if (x) inputs.push_back(x);
  const std::size_t first = inputs.size();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  tape.spend(HostCall::module);
  for (const Tensor& p : parameters) compute(tape, p, 1);
  const DType dtype = parameters.empty() ? x->dtype : parameters.front()->dtype;
  Tensor out = tape.empty({1}, dtype);
  const NodePtr node = tape.record(inputs, [&tape, parameters, first, compute](Node& made, const Tensors& gradients) {
    Tensors result(made.next.size());
    const bool passes_on = first == 1 && made.wants(0);
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const Tensor& p = parameters[i];
      const bool trained = made.wants(first + i);
      if (trained) result[first + i] = tape.empty(p->shape, p->dtype);
      compute(tape, p, (trained ? 1 : 0) + (passes_on || trained ? 1 : 0));
    }
    if (passes_on) result[0] = gradients.front();
    return result;
  });
  if (node) Tape::attach(node, out);
  return out;
}

Tensor StatesOnly::loss(WrappedModel& model, const Tensors&, const BatchSize& size) const {
  const std::uint64_t tokens = size.batch * size.seq;
  Tensor x;
  model.root_pre_forward({});
  if (const Tensors tables = root_parameters(model, true); !tables.empty())
    x = estimate(model, nullptr, tables, !c_.tied_embedding, tokens);
  if (!x) x = model.tape().empty({1}, model.settings().param_dtype.value_or(c_.dtype));
  std::size_t next = model.root_parameters();
  for (std::uint32_t block = 0; block < blocks(); ++block) {
    Tensors parameters;
    for (std::size_t i = 0; i < c_.units[block + 1].parameters.size(); ++i)
      parameters.push_back(model.parameter(next++));
    x = model.run_block(block, {x},
                        [&](const Tensors& in) { return estimate(model, in[0], parameters, false, tokens); });
  }
  if (const Tensors rest = root_parameters(model, false); !rest.empty()) x = estimate(model, x, rest, false, tokens);
  model.root_post_forward(x);
  return mean_all(model.tape(), x);
}

}  // namespace

std::unique_ptr<Family> make_states_only(const ModelConfig& config) {
  return std::make_unique<StatesOnly>(config);
}

}  // namespace foreshard::model
