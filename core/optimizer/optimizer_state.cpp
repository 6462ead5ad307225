#include "core/optimizer/optimizer_state.hpp"

namespace foreshard {
namespace {

constexpr Bytes kStepBytes = 4;  // a float32 scalar; on the device only for fused (and capturable) Adam

void add_states(std::vector<OptimizerEvent>& events, const OptimizerParameter& p, bool fused) {
  if (fused) events.push_back({true, OptimizerSlot::step, p.id, kStepBytes});
  if (p.bytes == 0) return;
  events.push_back({true, OptimizerSlot::exp_avg, p.id, p.bytes});
  events.push_back({true, OptimizerSlot::exp_avg_sq, p.id, p.bytes});
}

/// _multi_tensor_adam: one list of sqrt(exp_avg_sq), dropped in reverse at the end.
void add_foreach_step(std::vector<OptimizerEvent>& events, std::span<const OptimizerParameter> parameters) {
  for (const OptimizerParameter& p : parameters)
    if (p.bytes > 0) events.push_back({true, OptimizerSlot::sqrt, p.id, p.bytes});
  for (std::size_t i = parameters.size(); i-- > 0;)
    if (parameters[i].bytes > 0) events.push_back({false, OptimizerSlot::sqrt, parameters[i].id, parameters[i].bytes});
}

/// _single_tensor_adam: `denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)` a parameter; the
/// previous parameter's `denom` goes when the name is bound again.
void add_single_step(std::vector<OptimizerEvent>& events, std::span<const OptimizerParameter> parameters) {
  const OptimizerParameter* previous = nullptr;
  for (const OptimizerParameter& p : parameters) {
    if (p.bytes == 0) continue;
    events.push_back({true, OptimizerSlot::sqrt, p.id, p.bytes});
    events.push_back({true, OptimizerSlot::denominator, p.id, p.bytes});
    events.push_back({false, OptimizerSlot::sqrt, p.id, p.bytes});
    if (previous != nullptr) events.push_back({false, OptimizerSlot::denominator, previous->id, previous->bytes});
    previous = &p;
  }
  if (previous != nullptr) events.push_back({false, OptimizerSlot::denominator, previous->id, previous->bytes});
}

}  // namespace

std::vector<OptimizerEvent> optimizer_events(Optimizer optimizer, std::span<const OptimizerParameter> parameters,
                                             bool first) {
  std::vector<OptimizerEvent> events;
  if (optimizer == Optimizer::sgd) return events;  // no momentum: nothing is allocated
  if (first)
    for (const OptimizerParameter& p : parameters) add_states(events, p, optimizer == Optimizer::adam_fused);
  if (optimizer == Optimizer::adam) add_foreach_step(events, parameters);
  if (optimizer == Optimizer::adam_single) add_single_step(events, parameters);
  return events;
}

}  // namespace foreshard
