#include "core/optimizer/optimizer_state.hpp"

#include <algorithm>
#include <utility>

#include "core/optimizer/foreach_groups.hpp"

namespace foreshard {
namespace {

constexpr Bytes kStepBytes = 4;  // a float32 scalar; on the device only for fused (and capturable) Adam

void add_states(std::vector<OptimizerEvent>& events, const OptimizerParameter& p, bool fused) {
  if (fused) events.push_back({true, OptimizerSlot::step, p.id, kStepBytes});
  if (p.bytes == 0) return;
  events.push_back({true, OptimizerSlot::exp_avg, p.id, p.bytes});
  events.push_back({true, OptimizerSlot::exp_avg_sq, p.id, p.bytes});
}

/// _multi_tensor_adam: a list of sqrt(exp_avg_sq) for each dtype, dropped in reverse once its name is bound to the next
/// dtype's, the last one at the end.
void add_foreach_step(std::vector<OptimizerEvent>& events, std::span<const OptimizerParameter> parameters) {
  std::vector<DType> dtypes;
  for (const OptimizerParameter& p : parameters) dtypes.push_back(p.dtype);
  const auto drop = [&](const std::vector<std::size_t>& list) {
    for (auto i = list.rbegin(); i != list.rend(); ++i)
      if (parameters[*i].bytes > 0)
        events.push_back({false, OptimizerSlot::sqrt, parameters[*i].id, parameters[*i].bytes});
  };
  std::vector<std::size_t> bound;
  for (std::vector<std::size_t>& list : foreach_groups(dtypes)) {
    for (const std::size_t i : list)
      if (parameters[i].bytes > 0) events.push_back({true, OptimizerSlot::sqrt, parameters[i].id, parameters[i].bytes});
    drop(bound);
    bound = std::move(list);
  }
  drop(bound);
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

void add_group(std::vector<OptimizerEvent>& events, Optimizer optimizer, std::span<const OptimizerParameter> group,
               bool first) {
  if (first)
    for (const OptimizerParameter& p : group) add_states(events, p, optimizer == Optimizer::adam_fused);
  if (optimizer == Optimizer::adam) add_foreach_step(events, group);
  if (optimizer == Optimizer::adam_single) add_single_step(events, group);
}

}  // namespace

std::vector<OptimizerEvent> optimizer_events(Optimizer optimizer, std::span<const OptimizerParameter> parameters,
                                             bool first) {
  std::vector<OptimizerEvent> events;
  if (optimizer == Optimizer::sgd) return events;  // no momentum: nothing is allocated
  while (!parameters.empty()) {
    const auto end = std::find_if(parameters.begin(), parameters.end(), [&](const OptimizerParameter& p) {
      return p.param_group != parameters.front().param_group;
    });
    const auto count = static_cast<std::size_t>(end - parameters.begin());
    add_group(events, optimizer, parameters.first(count), first);
    parameters = parameters.subspan(count);
  }
  return events;
}

}  // namespace foreshard
