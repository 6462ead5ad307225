// The hooks of FullyShard (FSDPState and FSDPParamGroup's hook methods, PyTorch 2.11).
#include "core/fsdp/fully_shard.hpp"

namespace foreshard {

FullyShard::FullyShard(const Settings& settings, const std::vector<UnitPlan>& plans, Issuer& issuer)
    : settings_(settings), plans_(plans), issuer_(issuer), states_(plans.size()) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::size_t count = plans[i].parameters.size();
    states_[i].unsharded.resize(count);
    states_[i].clones.resize(count);
    states_[i].accumulated.resize(count);
  }
}

void FullyShard::zero_grad(const std::vector<UnitId>& order) {
  for (UnitId unit : order) {
    issuer_.free(state(unit).sharded_gradients);
    state(unit).sharded_gradients = {};
  }
}

void FullyShard::pre_forward(UnitId unit) {
  UnitState& s = state(unit);
  if (s.training == Training::pre_backward) {  // recomputation of a checkpointed unit (#171779)
    if (s.sharded != Sharded::unsharded) {
      unshard(unit);
      wait_for_unshard(unit);
    }
    return;
  }
  if (unit == kRootUnit) {  // _root_pre_forward
    if (post_optimizer_event_) {
      wait_gather_streams(*post_optimizer_event_);
      post_optimizer_event_.reset();
    } else {
      issuer_.wait_event(StreamRole::copy_in, issuer_.record_event(StreamRole::compute));
      issuer_.wait_event(StreamRole::all_gather, issuer_.record_event(StreamRole::compute));
    }
  }
  s.training = Training::forward;
  unshard(unit);
  wait_for_unshard(unit);
  for (UnitId target : plan(unit).forward_prefetch) {
    const Training kept = state(target).training;
    state(target).training = Training::forward;
    unshard(target);
    state(target).training = kept;
  }
}

void FullyShard::post_forward(UnitId unit) {
  UnitState& s = state(unit);
  if (s.training == Training::pre_backward) return;
  if (!in_backward_) {
    reshard(unit);
    s.post_forward_indices.push_back(post_forward_order_.size());
    post_forward_order_.push_back(unit);
  }
  s.training = Training::idle;
  if (unit == kRootUnit) drop_gather_slot();
}

void FullyShard::pre_backward(UnitId unit) {
  UnitState& s = state(unit);
  in_backward_ = true;
  if (s.training == Training::pre_backward) return;
  s.training = Training::pre_backward;
  unshard(unit);
  wait_for_unshard(unit);
  std::vector<UnitId> targets = plan(unit).backward_prefetch;
  if (targets.empty() && !s.post_forward_indices.empty()) {  // the default rule (4.4)
    const std::size_t index = s.post_forward_indices.back();
    s.post_forward_indices.pop_back();
    if (index >= 1) targets.push_back(post_forward_order_[index - 1]);
  }
  for (UnitId target : targets) {
    const Training kept = state(target).training;
    state(target).training = Training::pre_backward;
    unshard(target);
    state(target).training = kept;
  }
}

void FullyShard::backward_final() {
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    if (states_[i].training != Training::post_backward) post_backward(UnitId{i});
    states_[i].training = Training::idle;
    finalize(UnitId{i});
  }
  post_forward_order_.clear();
  if (reduce_slot_) {
    issuer_.wait_event(StreamRole::compute, reduce_slot_->event);
    issuer_.free(reduce_slot_->input);
    reduce_slot_.reset();
  }
  in_backward_ = false;
}

void FullyShard::optimizer_stepped() {
  if (settings_.post_optimizer_event) post_optimizer_event_ = issuer_.record_event(StreamRole::compute);
}

}  // namespace foreshard
