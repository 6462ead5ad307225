#include "core/models/wrapped_model.hpp"

#include <algorithm>

#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

bool floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16 || dtype == DType::float64;
}

}  // namespace

WrappedModel::WrappedModel(Tape& tape, const Settings& settings, const TrainedModel& model, std::uint32_t blocks,
                           const std::vector<TensorId>& from_setup)
    : tape_(tape),
      settings_(settings),
      from_setup_(from_setup),
      blocks_(blocks),
      root_parameters_(model.root_parameters) {
  Tensors all;
  for (const Unit& unit : model.units)
    for (const Parameter& p : unit.parameters) {
      const ParameterId id{static_cast<std::uint32_t>(all.size())};
      const DType dtype = p.gathered_in_float8 ? DType::float8_e4m3fn : settings.param_dtype.value_or(p.dtype);
      all.push_back(tape.parameter(id, p, dtype));
    }
  if (std::any_of(model.units.begin(), model.units.end(), [](const Unit& unit) { return unit.of_experts(); }))
    for (std::uint32_t u = 1; u < model.units.size(); ++u)
      if (!model.units[u].of_experts()) blocks_of_experts_.push_back(UnitId{u});
  for (const TrainedModel::Place& place : model.places) {
    parameters_.push_back(all[place.id.value]);
    if (!place.lora_a.valid()) continue;
    LowRankUpdate update{all[place.lora_a.value], all[place.lora_b.value]};
    parameters_.back()->low_rank = std::make_shared<const LowRankUpdate>(std::move(update));
  }
}

void WrappedModel::cast_inputs(UnitId unit, const std::vector<Tensor*>& inputs) {
  if (!settings_.param_dtype) return;
  tape_.casting_inputs_of(unit);
  for (Tensor* input : inputs)
    if (floating((*input)->dtype)) *input = to(tape_, *input, *settings_.param_dtype);
  tape_.casting_inputs_of({});
}

/// RegisterPostBackwardFunction: one identity node over the inputs that need a gradient.
void WrappedModel::register_post_backward(UnitId unit, const std::vector<Tensor*>& inputs) {
  Tensors needing;
  for (Tensor* input : inputs)
    if ((*input)->requires_grad) needing.push_back(*input);
  const auto back = [this, unit](Node&, const Tensors& gradients) {
    tape_.hook(Hook::post_backward, unit);
    return gradients;
  };
  const NodePtr node = tape_.record(needing, back, static_cast<std::uint32_t>(needing.size()));
  if (!node) return;
  std::uint32_t output = 0;
  for (Tensor* input : inputs) {
    if (!(*input)->requires_grad) continue;
    Tensor same = tape_.alias(*input, (*input)->shape, (*input)->strides);
    Tape::attach(node, same, output++);
    *input = same;
  }
}

void WrappedModel::register_pre_backward(UnitId unit, const Tensor& output) {
  if (!output->grad_fn) return;
  output->grad_fn->pre_hooks.push_back([this, unit] { tape_.hook(Hook::pre_backward, unit); });
}

void WrappedModel::root_pre_forward(const std::vector<Tensor*>& inputs) {
  cast_inputs(kRootUnit, inputs);
  tape_.hook(Hook::pre_forward, kRootUnit);
  register_post_backward(kRootUnit, inputs);
}

void WrappedModel::root_post_forward(const Tensor& output) {
  tape_.hook(Hook::post_forward, kRootUnit);
  register_pre_backward(kRootUnit, output);
}

UnitId WrappedModel::unit_of(std::uint32_t block) const {
  return blocks_of_experts_.empty() ? UnitId{1 + block / settings_.units_per_group} : blocks_of_experts_[block];
}

void WrappedModel::enter(UnitId unit, Tensors& inputs) {
  std::vector<Tensor*> slots;
  for (Tensor& input : inputs) slots.push_back(&input);
  cast_inputs(unit, slots);
  tape_.hook(Hook::pre_forward, unit);
  register_post_backward(unit, slots);
}

void WrappedModel::leave(UnitId unit, const Tensor& output) {
  tape_.hook(Hook::post_forward, unit);
  register_pre_backward(unit, output);
}

Tensor WrappedModel::run_block(std::uint32_t index, Tensors inputs,
                               const std::function<Tensor(const Tensors&)>& forward) {
  Tensors out = run_block_of_many(index, std::move(inputs), [forward](Tensors& in) { return Tensors{forward(in)}; });
  return std::move(out.front());
}

Tensors WrappedModel::run_block_of_many(std::uint32_t index, Tensors inputs,
                                        const std::function<Tensors(Tensors&)>& forward) {
  const std::uint32_t group = settings_.units_per_group;
  const UnitId unit = unit_of(index);
  const bool first = index % group == 0;
  const bool last = index + 1 == blocks_ || index % group == group - 1;
  if (first) enter(unit, inputs);
  tape_.spend(HostCall::module);
  Tensors out;
  if (settings_.checkpoints_block(index))
    out = tape_.checkpoint(
        [inputs, forward] {
          Tensors again = inputs;
          return forward(again);
        },
        settings_.checkpoint == Checkpoint::selective_op);
  else
    out = forward(inputs);
  if (last) leave(unit, out.back());
  return out;
}

Tensor WrappedModel::run_experts(std::uint32_t index, Tensors inputs,
                                 const std::function<Tensor(const Tensors&)>& forward) {
  if (blocks_of_experts_.empty()) {
    tape_.spend(HostCall::module);
    return forward(inputs);
  }
  const UnitId experts{unit_of(index).value + 1};
  enter(experts, inputs);
  tape_.spend(HostCall::module);
  Tensor out = forward(inputs);
  leave(experts, out);
  return out;
}

}  // namespace foreshard::model
