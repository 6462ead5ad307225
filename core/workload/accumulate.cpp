// Gradient accumulation in a recorded program (fsdp2 semantics 13.3).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/workload/adapt.hpp"

namespace foreshard {
namespace {

using Ops = std::vector<Op>;

/// One step's program cut at its microbatches.
struct CutStep {
  Ops before;                  ///< zero_grad
  std::vector<Ops> microbatch; ///< from microbatch_begin to microbatch_end
  Ops after;                   ///< optimizer
};

bool is_hook(const Op& op, Hook hook) { return op.kind == OpKind::hook && op.hook == hook; }

Result<CutStep> cut(const Program& program) {
  CutStep step;
  bool inside = false;
  for (const Op& op : program.ops) {
    if (is_hook(op, Hook::microbatch_begin)) {
      for (const Op& between : step.after) step.microbatch.back().push_back(between);  // between two microbatches
      step.after.clear();
      step.microbatch.emplace_back();
      inside = true;
    }
    Ops& to = inside ? step.microbatch.back() : (step.microbatch.empty() ? step.before : step.after);
    to.push_back(op);
    if (is_hook(op, Hook::microbatch_end)) inside = false;
  }
  if (step.microbatch.empty())
    return fail(ErrorKind::mismatch, "a step of the workload has no microbatch", {},
                "its program needs the hooks microbatch_begin and microbatch_end");
  return step;
}

bool frees_of(const Op& op) { return op.kind == OpKind::free && !op.from_setup && !op.before_recording; }

/// Tensors of this step that `ops` allocates, in order, with whether that is inside the forward range.
struct Allocation {
  TensorId tensor;
  bool in_forward = false;
};

std::vector<Allocation> allocations(const Ops& ops) {
  std::vector<Allocation> out;
  bool forward = false;
  for (const Op& op : ops) {
    if (is_hook(op, Hook::forward_begin)) forward = true;
    if (is_hook(op, Hook::forward_end)) forward = false;
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) out.push_back({op.tensor, forward});
  }
  return out;
}

bool freed_in(const Ops& ops, TensorId tensor) {
  return std::any_of(ops.begin(), ops.end(),
                     [&](const Op& op) { return frees_of(op) && op.steps_ago == 0 && op.tensor == tensor; });
}

/// Tensors that outlive their microbatch and are freed by `after`: inputs, the loss.
std::vector<Allocation> held_after(const Ops& microbatch, const Ops& after) {
  std::vector<Allocation> out;
  for (const Allocation& a : allocations(microbatch))
    if (freed_in(after, a.tensor)) out.push_back(a);
  return out;
}

std::uint32_t tensors_of(const Program& program) {
  std::uint32_t count = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc) count = std::max(count, op.tensor.value + 1);
  return count;
}

Op free_op(TensorId tensor) {
  Op op;
  op.kind = OpKind::free;
  op.tensor = tensor;
  return op;
}

/// A later microbatch: `source` (of a steady step) with fresh tensors from `base` on; what the one before
/// holds is freed where Python binds its name again: inputs right after their counterpart is allocated,
/// the loss at the end of the forward range.
Ops later_microbatch(const Ops& source, const std::vector<Allocation>& source_held, const std::vector<TensorId>& previous,
                     std::uint32_t base, std::map<TensorId, TensorId>& names) {
  Ops out;
  names.clear();
  const auto release = [&](bool in_forward, TensorId allocated) {
    for (std::size_t k = 0; k < source_held.size() && k < previous.size(); ++k) {
      const bool here = source_held[k].in_forward == in_forward && (in_forward || source_held[k].tensor == allocated);
      if (here) out.push_back(free_op(previous[k]));
    }
  };
  for (Op op : source) {
    if (is_hook(op, Hook::forward_end)) release(true, {});
    const TensorId original = op.tensor;
    if (op.kind == OpKind::alloc) {
      op.tensor = names[original] = TensorId{base + static_cast<std::uint32_t>(names.size())};
    } else if (op.kind == OpKind::free) {
      if (!frees_of(op)) continue;  // happens once, in the first microbatch
      const auto it = names.find(original);
      if (op.steps_ago != 0 || it == names.end()) continue;
      op.tensor = it->second;
    }
    out.push_back(op);
    if (op.kind == OpKind::alloc) release(false, original);
  }
  return out;
}

std::vector<TensorId> tensors(const std::vector<Allocation>& held) {
  std::vector<TensorId> out;
  for (const Allocation& a : held) out.push_back(a.tensor);
  return out;
}

void rename_frees(Ops& ops, const std::vector<TensorId>& from, const std::vector<TensorId>& to) {
  for (Op& op : ops) {
    if (!frees_of(op) || op.steps_ago != 0) continue;
    const auto it = std::find(from.begin(), from.end(), op.tensor);
    const auto k = static_cast<std::size_t>(it - from.begin());
    if (it != from.end() && k < to.size()) op.tensor = to[k];
  }
}

Program assemble(const CutStep& step) {
  Program program;
  program.ops = step.before;
  for (const Ops& microbatch : step.microbatch)
    program.ops.insert(program.ops.end(), microbatch.begin(), microbatch.end());
  program.ops.insert(program.ops.end(), step.after.begin(), step.after.end());
  return program;
}

/// Keeps the first microbatch; what the second one freed of it is freed where the step frees the last
/// one's.
void keep_first(CutStep& step) {
  if (step.microbatch.size() < 2) return;
  std::vector<Allocation> first_held;
  for (const Allocation& a : allocations(step.microbatch.front()))
    if (freed_in(step.microbatch[1], a.tensor)) first_held.push_back(a);
  const std::vector<Allocation> last_held = held_after(step.microbatch.back(), step.after);
  // Inputs with inputs, loss with loss: the order of allocation is the same in every microbatch.
  rename_frees(step.after, tensors(last_held), tensors(first_held));
  step.microbatch.resize(1);
}

void repeat(CutStep& step, const CutStep& steady, std::uint32_t wanted, std::uint32_t next_tensor) {
  const std::vector<Allocation> source_held = held_after(steady.microbatch.front(), steady.after);
  std::vector<TensorId> held = tensors(held_after(step.microbatch.front(), step.after));
  const std::vector<TensorId> first_held = held;
  std::map<TensorId, TensorId> names;
  while (step.microbatch.size() < wanted) {
    step.microbatch.push_back(later_microbatch(steady.microbatch.front(), source_held, held, next_tensor, names));
    next_tensor += static_cast<std::uint32_t>(names.size());
    held.clear();
    for (const Allocation& a : source_held) held.push_back(names.at(a.tensor));
  }
  rename_frees(step.after, first_held, held);
}

}  // namespace

Result<void> set_microbatches(Workload& workload, std::uint32_t captured, std::uint32_t wanted) {
  std::vector<CutStep> steps;
  for (const Program& program : workload.steps) {
    auto step = cut(program);
    if (!step) return tl::unexpected(step.error());
    if (step->microbatch.size() != captured)
      return fail(ErrorKind::mismatch,
                  fmt::format("a step of the workload has {} microbatches, its settings say {}",
                              step->microbatch.size(), captured),
                  {}, "accumulate in the about file must be that of the recorded run");
    keep_first(*step);
    steps.push_back(std::move(*step));
  }
  const CutStep steady = steps.back();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    repeat(steps[i], steady, wanted, tensors_of(workload.steps[i]));
    workload.steps[i] = assemble(steps[i]);
  }
  return {};
}

}  // namespace foreshard
