#include "traces/capture/program_builder.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "core/base/check.hpp"
#include "core/fsdp/buffer_category.hpp"
#include "core/fsdp/recorded_streams.hpp"
#include "core/optimizer/optimizer_state.hpp"
#include "core/shard/layout.hpp"
#include "traces/capture/param_groups.hpp"
#include "traces/capture/shard_matcher.hpp"

namespace foreshard::traces {
namespace {

/// Where a request stands in its step.
enum class Region : std::uint8_t {
  setup,
  zero_grad,
  inputs,
  forward,
  between,
  backward,
  after_backward,
  optimizer,
  after
};

Region region_after(Hook hook, Region current) {
  switch (hook) {
    case Hook::zero_grad:
      return Region::zero_grad;
    case Hook::microbatch_begin:
      return Region::inputs;
    case Hook::forward_begin:
      return Region::forward;
    case Hook::forward_end:
      return Region::between;
    case Hook::backward_begin:
      return Region::backward;
    case Hook::backward_end:
      return Region::after_backward;
    case Hook::optimizer_begin:
      return Region::optimizer;
    case Hook::optimizer_end:
      return Region::after;
    default:
      return current;
  }
}

PlacedOp unmarked_zero_grad(double position, UnitId unit = {}) {
  Op op;
  op.kind = OpKind::hook;
  op.hook = Hook::zero_grad;
  op.unit = unit;
  return {.op = op, .position = position, .unmarked = true, .segment = {}};
}

void add_unmarked_zero_grad(std::vector<PlacedOp>& ops, const FreedGradients& freed, double position) {
  if (freed.all) ops.push_back(unmarked_zero_grad(position));
  for (std::size_t i = 0; i < freed.units.size() && !freed.all; ++i)
    ops.push_back(unmarked_zero_grad(position, freed.units[i]));
}

/// A zero_grad that frees a part of the gradients is one for each of the units.
void add_zero_grad(std::vector<PlacedOp>& ops, PlacedOp hook, const FreedGradients& freed) {
  hook.no_effect = !freed.all && freed.units.empty();
  if (!freed.all && !freed.units.empty()) hook.op.unit = freed.units.front();
  ops.push_back(hook);
  for (std::size_t i = 1; i < freed.units.size() && !freed.all; ++i)
    ops.push_back(unmarked_zero_grad(0, freed.units[i]));
}

class Builder {
 public:
  Builder(const CaptureInput& input, const std::vector<CaptureEvent>& events, std::span<const Range> ranges,
          const Hooks& hooks, const Recognition& recognition, std::span<const UnitPlan> plans)
      : in_(input), events_(events), ranges_(ranges), hooks_(hooks), found_(recognition), tags_(recognition.tags) {
    for (const UnitPlan& plan : plans)
      casts_back_.push_back(std::any_of(plan.groups.begin(), plan.groups.end(),
                                        [](const ParamGroupPlan& group) { return group.casts_back; }));
    for (std::uint32_t u = 0; u < input.units.size(); ++u)
      for (const Parameter& p : input.units[u].parameters) {
        requires_grad_.push_back(p.requires_grad);
        dtype_.push_back(p.dtype);
        unit_of_.push_back(UnitId{u});
      }
  }

  BuiltPrograms build();

 private:
  void place_events();
  void find_input_casts();
  void match_setup_shards();
  void order_from_optimizer_states();
  [[nodiscard]] std::vector<UnitId> zero_grad_order(const std::vector<ParameterId>& order) const;
  [[nodiscard]] bool agrees_with_zero_grad(const std::vector<ParameterId>& order) const;
  void match_optimizer();
  bool takes(const ParamGroups& groups);
  void match_steps(const std::vector<OptimizerParameter>& parameters);
  void tag_optimizer(const std::vector<OptimizerParameter>& parameters);
  [[nodiscard]] bool optimizer_matches(std::size_t step, const std::vector<OptimizerParameter>& parameters,
                                       bool makes_states) const;
  [[nodiscard]] std::vector<OptimizerParameter> optimizer_parameters(const ParamGroups& groups) const;
  void order_parameters();
  void note_categories();
  void find_late_frees();
  void build_setup();
  void build_step(std::size_t step);
  void end_as_a_step_before();
  void add_event(std::vector<PlacedOp>& ops, std::uint32_t event, std::int32_t step, double position);
  [[nodiscard]] MemoryCategory category(std::uint32_t allocation) const;
  [[nodiscard]] std::uint32_t end_of_step(std::size_t step) const;

  const CaptureInput& in_;
  const std::vector<CaptureEvent>& events_;
  std::span<const Range> ranges_;
  const Hooks& hooks_;
  const Recognition& found_;
  std::vector<EventTag> tags_;
  BuiltPrograms out_;
  std::vector<bool> casts_back_;                              // by unit
  std::vector<bool> requires_grad_;                           // by ParameterId
  std::vector<DType> dtype_;                                  // by ParameterId
  std::vector<UnitId> unit_of_;                               // by ParameterId
  std::vector<std::int32_t> step_of_;                         // by request; −1: setup
  std::vector<Region> region_;                                // by request
  std::vector<TensorId> tensor_;                              // by allocation request
  std::vector<ParameterId> shard_of_;                         // by request: persistent shard of a parameter
  std::vector<Bytes> shard_bytes_;                            // by ParameterId
  std::vector<Bytes> trained_;                                // likewise; frozen ones have no state, as if no bytes
  std::vector<UnitId> input_cast_of_;                         // by request: the unit whose forward inputs it casts
  std::vector<bool> late_;                                    // by request: PlacedOp::late
  std::vector<std::vector<std::uint32_t>> optimizer_events_;  // by step: requests inside the optimizer
};

std::uint32_t Builder::end_of_step(std::size_t step) const {
  const auto it = std::upper_bound(step_of_.begin(), step_of_.end(), static_cast<std::int32_t>(step));
  return static_cast<std::uint32_t>(it - step_of_.begin());
}

void Builder::place_events() {
  step_of_.assign(events_.size(), -1);
  region_.assign(events_.size(), Region::setup);
  optimizer_events_.resize(hooks_.steps.size());
  std::size_t hook = 0;
  Region region = Region::setup;
  std::int32_t step = -1;
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    while (step + 1 < static_cast<std::int32_t>(hooks_.steps.size()) &&
           events_[i].time >= hooks_.steps[static_cast<std::size_t>(step + 1)].begin)
      ++step;
    while (hook < found_.hooks.size() && found_.hooks[hook].first_event <= i)
      region = region_after(found_.hooks[hook++].place.hook, region);
    step_of_[i] = step;
    region_[i] = step < 0 ? Region::setup : region;
    if (region_[i] == Region::optimizer && tags_[i].owner == Owner::user)
      optimizer_events_[static_cast<std::size_t>(step)].push_back(i);
  }
}

/// FSDP::cast_forward_inputs comes right before its unit's pre-forward hook.
void Builder::find_input_casts() {
  input_cast_of_.assign(events_.size(), UnitId{});
  std::uint32_t event = 0;
  std::size_t hook = 0;
  for (const Range& range : ranges_) {
    if (range.name != "FSDP::cast_forward_inputs") continue;
    while (hook < found_.hooks.size() &&
           (found_.hooks[hook].place.time < range.end || found_.hooks[hook].place.hook != Hook::pre_forward))
      ++hook;
    if (hook == found_.hooks.size()) return;
    while (event < events_.size() && events_[event].time < range.start) ++event;
    for (; event < events_.size() && events_[event].time <= range.end; ++event)
      if (events_[event].allocates && tags_[event].owner == Owner::user)
        input_cast_of_[event] = found_.hooks[hook].place.unit;
  }
}

void Builder::match_setup_shards() {
  const ShardGroup group = shard_dimension(in_.settings);
  for (const Unit& unit : in_.units)
    for (const Parameter& p : unit.parameters) {
      shard_bytes_.push_back(local_shard_numel(p, group) * itemsize(p.dtype));
      trained_.push_back(p.requires_grad ? shard_bytes_.back() : 0);
    }
  shard_of_.assign(events_.size(), ParameterId{});
  if (hooks_.began_inside) return;  // optimizer states of the cut step have the shards' sizes
  std::vector<Bytes> sizes;
  std::vector<std::uint32_t> where;
  for (std::uint32_t i = 0; i < events_.size() && step_of_[i] < 0; ++i) {
    if (!events_[i].allocates || events_[i].partner != CaptureEvent::kNone) continue;
    sizes.push_back(events_[i].size);
    where.push_back(i);
  }
  ShardMatch match = match_shards(sizes, shard_bytes_, in_.units, ModuleWalk::apply);
  if (match.complete) out_.parameters_order = match.order;
  if (!match.complete) match = match_shards_in_any_order(sizes, shard_bytes_);
  out_.shards_known = match.complete && !in_.settings.offload;
  if (!out_.shards_known) return;
  for (std::size_t k = 0; k < where.size(); ++k) shard_of_[where[k]] = match.parameter[k];
}

/// Adam makes its states in the order of model.parameters(), which is what that order is needed for: it
/// goes before the order in which setup made the shards (Module._apply's). Where they were made before the recording,
/// the foreach step's temporaries, one a parameter, have the same order.
void Builder::order_from_optimizer_states() {
  if (optimizer_events_.empty()) return;
  std::vector<Bytes> states;
  std::vector<Bytes> temporaries;
  for (std::uint32_t i : optimizer_events_[0])
    if (events_[i].allocates)
      (events_[i].partner == CaptureEvent::kNone ? states : temporaries).push_back(events_[i].size);
  // Two states a parameter; fused Adam's 4-byte step comes before them (core/optimizer/optimizer_state.cpp).
  const bool fused = in_.settings.optimizer == Optimizer::adam_fused;
  const std::size_t stride = fused ? 3 : 2;
  std::vector<Bytes> sizes;
  if (states.empty()) sizes = temporaries;
  for (std::size_t i = stride - 1; i < states.size(); i += stride) sizes.push_back(states[i]);
  const ShardMatch match = match_shards(sizes, trained_, in_.units, ModuleWalk::parameters, found_.zero_grad_order);
  const bool all = states.empty() ? !sizes.empty() : sizes.size() * stride == states.size();
  if (match.complete && all) out_.parameters_order = match.order;
}

/// Units in the order in which zero_grad drops their gradients: each with its last parameter.
std::vector<UnitId> Builder::zero_grad_order(const std::vector<ParameterId>& order) const {
  std::vector<UnitId> by_last;
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    if (requires_grad_[it->value] && std::find(by_last.begin(), by_last.end(), unit_of_[it->value]) == by_last.end())
      by_last.push_back(unit_of_[it->value]);
  std::reverse(by_last.begin(), by_last.end());
  return by_last;
}

/// Whether the recorded zero_grad allows that order of parameters.
bool Builder::agrees_with_zero_grad(const std::vector<ParameterId>& order) const {
  return found_.zero_grad_order.empty() || found_.zero_grad_order == zero_grad_order(order);
}

/// Where setup does not show the order of model.parameters(), or the recorded zero_grad contradicts it,
/// the order in which gradient blocks were freed decides between units.
void Builder::order_parameters() {
  if (!out_.parameters_order.empty() && agrees_with_zero_grad(out_.parameters_order)) return;
  std::vector<UnitId> units = found_.zero_grad_order;
  for (std::uint32_t u = 0; u < in_.units.size(); ++u)
    if (std::find(units.begin(), units.end(), UnitId{u}) == units.end()) units.push_back(UnitId{u});
  out_.parameters_order.clear();
  for (UnitId u : units)
    for (std::uint32_t p = 0; p < unit_of_.size(); ++p)
      if (unit_of_[p] == u) out_.parameters_order.push_back(ParameterId{p});
}

std::vector<OptimizerParameter> Builder::optimizer_parameters(const ParamGroups& groups) const {
  std::vector<OptimizerParameter> parameters;
  if (in_.settings.offload) return parameters;
  std::size_t place = 0;
  for (std::uint32_t group = 0; group < groups.counts.size(); ++group)
    for (std::uint32_t i = 0; i < groups.counts[group]; ++i) {
      const ParameterId id = groups.order[place++];
      if (requires_grad_[id.value]) parameters.push_back({id, shard_bytes_[id.value], group, dtype_[id.value]});
    }
  return parameters;
}

bool Builder::optimizer_matches(std::size_t step, const std::vector<OptimizerParameter>& parameters,
                                bool makes_states) const {
  const auto expected = optimizer_events(in_.settings.optimizer, parameters, makes_states);
  const std::vector<std::uint32_t>& recorded = optimizer_events_[step];
  if (expected.size() != recorded.size()) return false;
  std::map<std::pair<ParameterId, OptimizerSlot>, std::uint32_t> live;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const CaptureEvent& e = events_[recorded[i]];
    const auto key = std::make_pair(expected[i].parameter, expected[i].slot);
    if (e.allocates != expected[i].allocates || e.size != expected[i].bytes || e.stream != 0) return false;
    if (!e.allocates && (!live.contains(key) || live[key] != e.partner)) return false;
    if (e.allocates) live[key] = recorded[i];
    if (e.allocates && expected[i].is_state() && e.partner != CaptureEvent::kNone) return false;
  }
  return true;
}

/// Whether the optimizer's requests of all steps are those of these parameters.
void Builder::match_steps(const std::vector<OptimizerParameter>& parameters) {
  bool all = !hooks_.steps.empty();
  bool later = all && !parameters.empty();
  for (std::size_t step = 0; step < hooks_.steps.size(); ++step) {
    all &= optimizer_matches(step, parameters, step == 0);
    later &= optimizer_matches(step, parameters, false);
  }
  out_.optimizer_known = all;
  out_.optimizer_began_before = later && !all;
}

/// Whether the optimizer's requests of all steps are those of these groups, which are then the workload's.
bool Builder::takes(const ParamGroups& groups) {
  const auto parameters = optimizer_parameters(groups);
  match_steps(parameters);
  if (!out_.optimizer_known && !out_.optimizer_began_before) return false;
  out_.parameters_order = groups.order;
  if (groups.counts.size() > 1) out_.optimizer_param_groups = groups.counts;
  if (out_.optimizer_known) tag_optimizer(parameters);
  return true;
}

/// The groups that are given; else one of all parameters, or several where that does not fit.
void Builder::match_optimizer() {
  if (!in_.optimizer_param_groups.empty()) {
    const ParamGroups given = given_param_groups(in_.optimizer_param_groups, unit_of_.size());
    if (agrees_with_zero_grad(given.order)) takes(given);
    return;
  }
  if (takes({out_.parameters_order, {static_cast<std::uint32_t>(out_.parameters_order.size())}})) return;
  if (optimizer_events_.empty()) return;
  const auto several = find_param_groups(in_.settings.optimizer, events_, optimizer_events_[0], trained_, in_.units);
  if (several && agrees_with_zero_grad(several->order)) takes(*several);
}

void Builder::tag_optimizer(const std::vector<OptimizerParameter>& parameters) {
  for (std::size_t step = 0; step < hooks_.steps.size(); ++step) {
    const auto expected = optimizer_events(in_.settings.optimizer, parameters, step == 0);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      EventTag& tag = tags_[optimizer_events_[step][k]];
      tag.owner = Owner::optimizer;
      tag.parameter = expected[k].parameter;
    }
  }
}

MemoryCategory Builder::category(std::uint32_t i) const {
  const EventTag& tag = tags_[i];
  if (tag.owner == Owner::gradient) return MemoryCategory::gradients;
  if (tag.owner == Owner::fsdp) return category_of(tag.buffer, casts_back_[tag.unit.value]);
  if (shard_of_[i].valid()) return MemoryCategory::parameters;
  const std::uint32_t end = events_[i].partner;
  const bool stays = end == CaptureEvent::kNone;
  switch (region_[i]) {
    case Region::setup:
      return MemoryCategory::other;
    case Region::optimizer:
      return stays ? MemoryCategory::optimizer_state : MemoryCategory::optimizer_temporaries;
    case Region::zero_grad:
    case Region::inputs:
      return MemoryCategory::inputs;
    default:
      break;
  }
  if (stays)
    return step_of_[i] == static_cast<std::int32_t>(hooks_.steps.size()) - 1 ? MemoryCategory::temporaries
                                                                             : MemoryCategory::workspaces;
  const bool forward = region_[i] == Region::forward || region_[i] == Region::between;
  return forward && region_[end] != Region::forward ? MemoryCategory::activations : MemoryCategory::temporaries;
}

void Builder::note_categories() {
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    if (!events_[i].allocates) continue;
    out_.allocations.push_back(
        {category(i), tags_[i].owner == Owner::fsdp || tags_[i].owner == Owner::gradient ? tags_[i].unit : UnitId{},
         shard_of_[i].valid() ? shard_of_[i] : tags_[i].parameter, step_of_[i], tensor_[i]});
  }
}

void Builder::add_event(std::vector<PlacedOp>& ops, std::uint32_t i, std::int32_t step, double position) {
  const CaptureEvent& e = events_[i];
  const EventTag& tag = tags_[i];
  if (tag.owner == Owner::fsdp || tag.owner == Owner::optimizer) return;
  if (tag.owner == Owner::gradient && !e.allocates) return;
  Op op;
  op.kind = e.allocates ? OpKind::alloc : OpKind::free;
  if (e.allocates) {
    op.tensor = tensor_[i];
    op.unit = input_cast_of_[i];
    op.user_stream = stream_of(e.stream, found_, out_.user_streams);
    op.size = {shard_of_[i].valid() ? AllocationSize::Kind::local_shard : AllocationSize::Kind::fixed, e.size,
               shard_of_[i]};
    op.category = category(i);
    if (tag.owner == Owner::gradient) op.gradient_of = tag.parameter;
  } else if (e.partner == CaptureEvent::kNone) {
    op.before_recording = true;
    op.size.bytes = e.address;
  } else {
    op.tensor = tensor_[e.partner];
    op.from_setup = step >= 0 && step_of_[e.partner] < 0;
    op.steps_ago = op.from_setup ? 0 : static_cast<std::uint32_t>(step - step_of_[e.partner]);
  }
  ops.push_back({.op = op, .position = position, .late = late_[i], .segment = {}});
}

/// Whether a block is seen to come back late is the GPU's pace: what record_stream was said of in one step, it was said
/// of in all. Blocks are told by their size and their place among those of that size.
void Builder::find_late_frees() {
  std::vector<std::pair<Bytes, std::uint32_t>> place(events_.size());
  std::map<Bytes, std::uint32_t> next;
  std::set<std::pair<Bytes, std::uint32_t>> late;
  const auto is_users = [this](std::uint32_t i) { return tags_[i].owner == Owner::user && step_of_[i] >= 0; };
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    const CaptureEvent& e = events_[i];
    if (i > 0 && step_of_[i] != step_of_[i - 1]) next.clear();
    if (e.allocates && is_users(i)) place[i] = {e.size, next[e.size]++};
    if (!e.allocates && e.late && e.partner != CaptureEvent::kNone && is_users(e.partner))
      late.insert(place[e.partner]);
  }
  late_.assign(events_.size(), false);
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    const std::uint32_t made = events_[i].partner;
    if (!events_[i].allocates && made != CaptureEvent::kNone && is_users(made)) late_[i] = late.contains(place[made]);
  }
}

void Builder::build_setup() {
  for (std::uint32_t i = 0; i < events_.size() && step_of_[i] < 0; ++i) add_event(out_.setup, i, -1, 0);
}

void Builder::build_step(std::size_t step) {
  const StepPlaces& places = hooks_.steps[step];
  std::vector<PlacedOp>& ops = out_.steps.emplace_back();
  const auto position_in = [&](Nanoseconds begin, Nanoseconds end, Nanoseconds time) {
    if (end <= begin) return 0.0;
    return std::clamp(static_cast<double>((time - begin).count) / static_cast<double>((end - begin).count), 0.0, 1.0);
  };
  std::uint32_t next = 0;
  while (next < events_.size() && step_of_[next] < static_cast<std::int32_t>(step)) ++next;
  const std::uint32_t end = end_of_step(step);
  const std::vector<UnmarkedZeroGrad>& unmarked = found_.unmarked_zero_grads;
  auto zero_grad = std::find_if(unmarked.begin(), unmarked.end(), [&](const auto& z) { return z.first_event >= next; });
  Nanoseconds opened = places.begin;
  for (std::size_t h = places.first; h <= places.first + places.count; ++h) {
    const bool last = h == places.first + places.count;
    const std::uint32_t until = last ? end : found_.hooks[h].first_event;
    const Nanoseconds closes = last ? places.end : found_.hooks[h].place.time;
    for (; next < until; ++next) {
      const double position = position_in(opened, closes, events_[next].time);
      if (zero_grad != unmarked.end() && zero_grad->first_event == next)
        add_unmarked_zero_grad(ops, (zero_grad++)->freed, position);
      add_event(ops, next, static_cast<std::int32_t>(step), position);
    }
    if (last) break;
    Op op;
    op.kind = OpKind::hook;
    op.hook = found_.hooks[h].place.hook;
    op.unit = found_.hooks[h].place.unit;
    const PlacedOp hook{.op = op, .segment = closes - opened};
    if (op.hook == Hook::zero_grad)
      add_zero_grad(ops, hook, found_.hooks[h].freed);
    else
      ops.push_back(hook);
    opened = closes;
  }
}

/// A recording that ends with its last optimizer lacks what the script does behind it: frees of that step's own
/// tensors, and of gradients where no range of the next step frees them. The last step ends as the latest one that is
/// the same as far as it was recorded; where there is none (or that one makes tensors there) it frees the gradients
/// alone.
void Builder::end_as_a_step_before() {
  if (out_.steps.size() < 2) return;
  std::vector<PlacedOp>& last = out_.steps.back();
  const auto behind_hooks = [](const std::vector<PlacedOp>& ops) {
    const auto hook = std::find_if(ops.rbegin(), ops.rend(),
                                   [](const PlacedOp& p) { return p.op.kind == OpKind::hook && !p.unmarked; });
    return ops.begin() + std::distance(hook, ops.rend());
  };
  const auto is_zero_grad = [](const PlacedOp& p) { return p.unmarked; };
  const auto is_alloc = [](const PlacedOp& p) { return p.op.kind == OpKind::alloc; };
  if (std::any_of(behind_hooks(last), last.cend(), is_zero_grad)) return;
  const auto same = std::find_if(std::next(out_.steps.rbegin()), out_.steps.rend(), [&](const auto& before) {
    return last.size() <= before.size() && std::none_of(behind_hooks(before), before.end(), is_alloc) &&
           std::equal(last.begin(), last.end(), before.begin(), [](const PlacedOp& a, const PlacedOp& b) {
             return a.unmarked == b.unmarked && same_op(a.op, b.op);
           });
  });
  const bool found = same != out_.steps.rend();
  const std::vector<PlacedOp>& like = found ? *same : *std::next(out_.steps.rbegin());
  for (std::size_t i = 0; found && i < last.size(); ++i) last[i].op.category = like[i].op.category;
  for (auto op = found ? like.begin() + std::ssize(last) : behind_hooks(like); op != like.end(); ++op) {
    if (!found && !is_zero_grad(*op)) continue;
    last.push_back(*op);
    last.back().position = 1;
  }
}

BuiltPrograms Builder::build() {
  place_events();
  find_input_casts();
  match_setup_shards();
  order_from_optimizer_states();
  order_parameters();
  match_optimizer();
  // A tensor's name is its number among the allocations of its step that stay in the workload.
  tensor_.assign(events_.size(), TensorId{});
  std::int32_t step = -2;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    if (step_of_[i] != step) count = 0;
    step = step_of_[i];
    if (events_[i].allocates && (tags_[i].owner == Owner::user || tags_[i].owner == Owner::gradient))
      tensor_[i] = TensorId{count++};
  }
  note_categories();
  find_late_frees();
  build_setup();
  for (std::size_t s = 0; s < hooks_.steps.size(); ++s) build_step(s);
  end_as_a_step_before();
  return std::move(out_);
}

}  // namespace

bool same_op(const Op& a, const Op& b) {
  return a.kind == b.kind && a.user_stream == b.user_stream && a.tensor == b.tensor && a.steps_ago == b.steps_ago &&
         a.from_setup == b.from_setup && a.before_recording == b.before_recording && a.size == b.size &&
         a.gradient_of == b.gradient_of && a.hook == b.hook && a.unit == b.unit;
}

std::uint8_t stream_of(std::uint64_t handle, const Recognition& recognition, std::vector<std::uint64_t>& user_streams) {
  if (handle == 0) return 0;
  for (const auto& [role, of_role] : recognition.streams)
    if (of_role == handle) return recorded_stream(role);
  auto it = std::find(user_streams.begin(), user_streams.end(), handle);
  if (it == user_streams.end()) it = user_streams.insert(it, handle);
  return static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(it - user_streams.begin() + 1, kFirstFsdpStream - 1));
}

BuiltPrograms build_programs(const CaptureInput& input, const std::vector<CaptureEvent>& events,
                             std::span<const Range> ranges, const Hooks& hooks, const Recognition& recognition,
                             std::span<const UnitPlan> plans) {
  return Builder(input, events, ranges, hooks, recognition, plans).build();
}

}  // namespace foreshard::traces
