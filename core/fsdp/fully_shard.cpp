// The hooks of FullyShard (FSDPState and FSDPParamGroup's hook methods, PyTorch 2.11).
#include "core/fsdp/fully_shard.hpp"

#include <algorithm>

namespace foreshard {

FullyShard::FullyShard(const Settings& settings, const std::vector<UnitPlan>& plans, FsdpBackend& backend)
    : settings_(settings),
      rules_(fsdp_rules(settings.pytorch)),
      plans_(plans),
      backend_(backend),
      states_(plans.size()) {
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (const ParamGroupPlan& group : plans[i].groups) {
      GroupState& s = states_[i].groups.emplace_back();
      s.unsharded.resize(group.parameters.size());
      s.parts.resize(group.parameters.size());
      s.accumulated.resize(group.parameters.size());
    }
}

FullyShard::Unsharded FullyShard::unsharded(ParamGroupId group, std::size_t index) const {
  const GroupState& s = state(group);
  if (s.contiguous.valid()) return {s.contiguous, plan(group).parameters[index].offset};
  return {s.unsharded[index], 0};
}
BufferRef FullyShard::sharded_gradients(ParamGroupId group) const {
  return state(group).sharded_gradients;
}
bool FullyShard::has_gradients() const {
  const auto has = [](const GroupState& group) { return group.sharded_gradients.valid(); };
  return std::any_of(states_.begin(), states_.end(),
                     [&](const UnitState& unit) { return std::any_of(unit.groups.begin(), unit.groups.end(), has); });
}

const std::vector<std::size_t>& FullyShard::reduced(ParamGroupId group) const {
  return state(group).reduced;
}

void FullyShard::zero_grad(const std::vector<UnitId>& order) {
  free_stepped_gradients(0);
  for (UnitId unit : order)
    each_group(unit, [&](ParamGroupId id) {
      GroupState& s = state(id);
      if (s.sharded_gradients.valid() && s.stepped) backend_.wait_event(s.gradients_of, *s.stepped);
      backend_.free(s.sharded_gradients);
      s.sharded_gradients = {};
    });
}

void FullyShard::pre_forward(UnitId unit) {
  UnitState& s = state(unit);
  if (s.training == Training::pre_backward) {  // recomputation of a checkpointed unit (#171779)
    each_group(unit, [&](ParamGroupId id) {
      if (state(id).sharded == Sharded::unsharded) return;
      unshard(id);
      wait_for_unshard(id);
    });
    return;
  }
  if (unit == kRootUnit) make_float8_scales();
  if (unit == kRootUnit && settings_.optimizer_overlap == OptimizerOverlap::none) {  // _root_pre_forward
    if (post_optimizer_event_) {
      wait_gather_streams(*post_optimizer_event_);
      post_optimizer_event_.reset();
    } else {
      backend_.wait_event(StreamRole::copy_in, backend_.record_event(StreamRole::compute));
      backend_.wait_event(StreamRole::all_gather, backend_.record_event(StreamRole::compute));
    }
  }
  s.training = Training::forward;
  each_group(unit, [&](ParamGroupId id) {
    unshard(id);
    wait_for_unshard(id);
  });
  forward_prefetch(unit);
}

void FullyShard::post_forward(UnitId unit, bool casts_outputs) {
  UnitState& s = state(unit);
  if (s.training == Training::pre_backward) return;
  if (!in_backward_)
    each_group(unit, [&](ParamGroupId id) {
      reshard(id);
      state(id).post_forward_indices.push_back(post_forward_order_.size());
      post_forward_order_.push_back(id);
    });
  s.training = Training::idle;
  if (unit != kRootUnit) return;
  if (rules_.completes_partial_units) complete_partial_units();
  if (!casts_outputs) drop_gather_slot();
}

/// FSDPState._force_complete_incomplete_states (2.13): from the last of them to the first. Their outputs' hooks, which
/// begin backward, are then on the root's.
void FullyShard::complete_partial_units() {
  for (auto i = static_cast<std::uint32_t>(states_.size()); i-- > 1;)
    if (states_[i].training == Training::forward) post_forward(UnitId{i});
}

void FullyShard::outputs_cast() {
  drop_gather_slot();
}

void FullyShard::reshard(UnitId unit) {
  each_group(unit, [&](ParamGroupId id) { reshard(id); });
}

void FullyShard::pre_backward(UnitId unit) {
  UnitState& s = state(unit);
  in_backward_ = true;
  if (s.training == Training::pre_backward) return;
  s.training = Training::pre_backward;
  each_group(unit, [&](ParamGroupId id) {
    unshard(id);
    wait_for_unshard(id);
    backward_prefetch(id);
  });
  backward_prefetch(unit);
}

void FullyShard::post_backward(UnitId unit) {
  state(unit).training = Training::post_backward;
  each_group_back(unit, [&](ParamGroupId id) { post_backward(id); });
}

void FullyShard::backward_final() {
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    const UnitId unit{i};
    if (state(unit).training != Training::post_backward) post_backward(unit);
    state(unit).training = Training::idle;
    if (last_backward_) each_group(unit, [&](ParamGroupId id) { finalize(id); });
  }
  if (last_backward_) {
    post_forward_order_.clear();
    free_last_reduce_inputs();
  }
  if (rules_.frees_gather_after_backward) drop_gather_slot_behind_backward();
  free_resharded_blocks(true);
  in_backward_ = false;
}

void FullyShard::optimizer_stepped() {
  if (settings_.optimizer_overlap == OptimizerOverlap::none) find_float8_amaxes();
  if (settings_.post_optimizer_event) post_optimizer_event_ = backend_.record_event(StreamRole::compute);
}

}  // namespace foreshard
