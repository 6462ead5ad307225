#include "core/adapt/skip_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace foreshard {
namespace {

bool is_hook(const Op& op, Hook hook, UnitId unit) {
  return op.kind == OpKind::hook && op.hook == hook && op.unit == unit;
}

/// Which ops of `ops` run between the hooks of `unit`, these included, or cast its forward's inputs.
std::vector<bool> inside(const std::vector<Op>& ops, UnitId unit) {
  std::vector<bool> out(ops.size());
  int depth = 0;  // a forward may be made again within the backward
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (is_hook(op, Hook::pre_forward, unit) || is_hook(op, Hook::pre_backward, unit)) ++depth;
    out[i] = depth > 0 || op.unit == unit;
    if (depth > 0 && (is_hook(op, Hook::post_forward, unit) || is_hook(op, Hook::post_backward, unit))) --depth;
  }
  return out;
}

/// A unit whose hooks are in part between those of `unit`, in part not; invalid: none.
UnitId overlapping(const std::vector<Op>& ops, const std::vector<bool>& in) {
  std::set<UnitId> within, without;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].kind == OpKind::hook && ops[i].unit.valid()) (in[i] ? within : without).insert(ops[i].unit);
  for (const UnitId one : within)
    if (without.contains(one)) return one;
  return {};
}

void remove(std::vector<Op>& ops, const std::vector<bool>& in) {
  std::set<TensorId> freed;  // of this step's
  for (const Op& op : ops)
    if (op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording) freed.insert(op.tensor);
  std::set<TensorId> gone;
  std::vector<Op> kept;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const bool own = op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording;
    if (own && gone.contains(op.tensor)) continue;
    const bool outlives = op.kind == OpKind::alloc && !op.gradient_of.valid() && !freed.contains(op.tensor);
    if (in[i] && op.kind != OpKind::free && !outlives) {
      if (op.kind == OpKind::alloc) gone.insert(op.tensor);
      continue;
    }
    kept.push_back(op);
  }
  ops = std::move(kept);
}

}  // namespace

Result<void> skip_unit(Workload& workload, UnitId unit, std::uint32_t from, std::int32_t count) {
  if (unit == kRootUnit)
    return fail(ErrorKind::usage, "the root runs in every step: it is the model", {}, "name a unit inside it");
  std::vector<Program> steps;
  for (std::size_t step = 0; step < static_cast<std::size_t>(count); ++step)
    steps.push_back(workload.steps[program_of_step(workload, step)]);
  const std::string& name = workload.units[unit.value].name;
  for (std::size_t step = from; step < steps.size(); ++step) {
    std::vector<Op>& ops = steps[step].ops;
    const std::vector<bool> in = inside(ops, unit);
    if (std::find(in.begin(), in.end(), true) == in.end())
      return fail(ErrorKind::usage, fmt::format("step {} does not run {}", step, name));
    if (const UnitId other = overlapping(ops, in); other.valid())
      return fail(ErrorKind::usage,
                  fmt::format("{} runs in part while {} does", workload.units[other.value].name, name), {},
                  "name a unit that runs by itself");
    remove(ops, in);
  }
  workload.steps = std::move(steps);
  workload.cycle = 1;
  return {};
}

}  // namespace foreshard
