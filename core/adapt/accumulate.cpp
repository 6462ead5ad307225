// Gradient accumulation in a recorded program (fsdp2 semantics 13.3).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"

namespace foreshard {
namespace {

using Ops = std::vector<Op>;

/// One step's program cut at its microbatches.
struct CutStep {
  Ops before;                    ///< zero_grad
  std::vector<Ops> microbatch;   ///< from microbatch_begin to microbatch_end
  Ops after;                     ///< optimizer
  std::set<TensorId> handed_on;  ///< tensors that the next step frees: a name that it binds again
  std::vector<ProgramKernel> kernels;
  LabelId uncomputed;
  TensorId loss;
};

/// Tensors that were held under one name before a rewriting and under another after it.
struct Renaming {
  std::vector<TensorId> from;
  std::vector<TensorId> to;
};

bool is_hook(const Op& op, Hook hook) {
  return op.kind == OpKind::hook && op.hook == hook;
}

Result<CutStep> cut(const Program& program) {
  CutStep step;
  step.kernels = program.kernels;
  step.uncomputed = program.uncomputed;
  step.loss = program.loss;
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

bool frees_of(const Op& op) {
  return op.kind == OpKind::free && !op.from_setup && !op.before_recording;
}

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

/// Tensors of its own step that `ops` frees.
std::set<TensorId> freed_in(const Ops& ops) {
  std::set<TensorId> out;
  for (const Op& op : ops)
    if (frees_of(op) && op.steps_ago == 0) out.insert(op.tensor);
  return out;
}

/// Tensors of a microbatch that outlive it and are freed by the rest of the step or by the next: inputs,
/// the loss.
std::vector<Allocation> held_after(const Ops& microbatch, const CutStep& step) {
  const std::set<TensorId> freed = freed_in(step.after);
  std::vector<Allocation> out;
  for (const Allocation& a : allocations(microbatch))
    if (freed.contains(a.tensor) || step.handed_on.contains(a.tensor)) out.push_back(a);
  return out;
}

bool frees_of_step_before(const Op& op) {
  return frees_of(op) && op.steps_ago == 1;
}

std::set<TensorId> freed_of_step_before(const Program& program) {
  std::set<TensorId> out;
  for (const Op& op : program.ops)
    if (frees_of_step_before(op)) out.insert(op.tensor);
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
/// holds is freed where Python binds its name again. Where a step frees what the step before held, that
/// place is recorded; else it is right after the counterpart's allocation for inputs, and the end of the
/// forward range for the loss.
Ops later_microbatch(const Ops& source, const std::vector<Allocation>& source_held,
                     const std::vector<TensorId>& previous, std::uint32_t base, std::map<TensorId, TensorId>& names) {
  Ops out;
  names.clear();
  std::set<TensorId> placed;  // held tensors whose rebinding the source shows
  for (const Op& op : source)
    if (frees_of_step_before(op)) placed.insert(op.tensor);
  std::map<TensorId, std::size_t> held;  // places in `source_held`
  for (std::size_t k = 0; k < source_held.size() && k < previous.size(); ++k) held.emplace(source_held[k].tensor, k);
  for (Op op : source) {
    if (is_hook(op, Hook::zero_grad)) continue;  // once a step: gradients are summed over its microbatches
    if (is_hook(op, Hook::forward_end))
      for (std::size_t k = 0; k < source_held.size() && k < previous.size(); ++k)
        if (source_held[k].in_forward && !placed.contains(source_held[k].tensor)) out.push_back(free_op(previous[k]));
    const TensorId original = op.tensor;
    const auto rebound = held.find(original);
    if (op.kind == OpKind::alloc) {
      op.tensor = names[original] = TensorId{base + static_cast<std::uint32_t>(names.size())};
    } else if (frees_of_step_before(op)) {
      if (rebound != held.end()) out.push_back(free_op(previous[rebound->second]));
      continue;
    } else if (op.kind == OpKind::free) {
      if (!frees_of(op)) continue;  // happens once, in the first microbatch
      const auto it = names.find(original);
      if (op.steps_ago != 0 || it == names.end()) continue;
      op.tensor = it->second;
    }
    out.push_back(op);
    if (op.kind == OpKind::alloc && rebound != held.end() && !source_held[rebound->second].in_forward &&
        !placed.contains(original))
      out.push_back(free_op(previous[rebound->second]));
  }
  return out;
}

std::vector<TensorId> tensors(const std::vector<Allocation>& held) {
  std::vector<TensorId> out;
  for (const Allocation& a : held) out.push_back(a.tensor);
  return out;
}

/// By old name. Of one that stands there twice the first counts.
std::map<TensorId, TensorId> by_old_name(const Renaming& names) {
  std::map<TensorId, TensorId> out;
  for (std::size_t k = 0; k < names.from.size() && k < names.to.size(); ++k) out.emplace(names.from[k], names.to[k]);
  return out;
}

/// Frees of tensors of this step (`steps_ago` 0) or of the one before (1).
void rename_frees(Ops& ops, const std::map<TensorId, TensorId>& names, std::uint32_t steps_ago) {
  if (names.empty()) return;
  for (Op& op : ops) {
    if (!frees_of(op) || op.steps_ago != steps_ago) continue;
    if (const auto name = names.find(op.tensor); name != names.end()) op.tensor = name->second;
  }
}

/// The loss of a step whose last microbatch is another one now.
void rename_loss(CutStep& step, const Renaming& names) {
  const auto it = std::find(names.from.begin(), names.from.end(), step.loss);
  const auto k = static_cast<std::size_t>(it - names.from.begin());
  step.loss = k < names.from.size() && k < names.to.size() ? names.to[k] : TensorId{};
}

/// What each step frees of the step before, after that one's tensors were renamed. The last program runs
/// after itself, too.
void rename_handed_on(std::vector<CutStep>& steps, const std::vector<Renaming>& renamed) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Renaming names = i > 0 ? renamed[i - 1] : Renaming{};
    if (i + 1 == steps.size()) {
      names.to.resize(std::min(names.from.size(), names.to.size()));
      names.from.resize(names.to.size());
      names.from.insert(names.from.end(), renamed[i].from.begin(), renamed[i].from.end());
      names.to.insert(names.to.end(), renamed[i].to.begin(), renamed[i].to.end());
    }
    const std::map<TensorId, TensorId> now = by_old_name(names);
    rename_frees(steps[i].before, now, 1);
    for (Ops& microbatch : steps[i].microbatch) rename_frees(microbatch, now, 1);
    rename_frees(steps[i].after, now, 1);
  }
}

/// Its loss is that of its last microbatch. Operands of what was put into it may have no tensor here: then it computes
/// nothing.
Program assemble(const CutStep& step) {
  Program program;
  program.kernels = step.kernels;
  program.uncomputed = step.uncomputed;
  program.loss = step.loss;
  program.ops = step.before;
  for (const Ops& microbatch : step.microbatch)
    program.ops.insert(program.ops.end(), microbatch.begin(), microbatch.end());
  program.ops.insert(program.ops.end(), step.after.begin(), step.after.end());
  if (!kernels_hold(program)) drop_kernels(program);
  return program;
}

/// Keeps the first microbatch; what the second one freed of it is freed where the step, or the next,
/// frees the last one's.
Renaming keep_first(CutStep& step) {
  if (step.microbatch.size() < 2) return {};
  const std::set<TensorId> freed = freed_in(step.microbatch[1]);
  std::vector<Allocation> first_held;
  for (const Allocation& a : allocations(step.microbatch.front()))
    if (freed.contains(a.tensor)) first_held.push_back(a);
  // Inputs with inputs, loss with loss: the order of allocation is the same in every microbatch.
  const Renaming names{tensors(held_after(step.microbatch.back(), step)), tensors(first_held)};
  rename_frees(step.after, by_old_name(names), 0);
  rename_loss(step, names);
  for (std::size_t k = 0; k < names.from.size() && k < names.to.size(); ++k)
    if (step.handed_on.erase(names.from[k]) > 0) step.handed_on.insert(names.to[k]);
  step.microbatch.resize(1);
  return names;
}

Renaming repeat(CutStep& step, const CutStep& steady, std::uint32_t wanted, std::uint32_t next_tensor) {
  const std::vector<Allocation> source_held = held_after(steady.microbatch.front(), steady);
  std::vector<TensorId> held = tensors(held_after(step.microbatch.front(), step));
  const std::vector<TensorId> first_held = held;
  std::map<TensorId, TensorId> names;
  if (step.microbatch.size() >= wanted) return {first_held, held};
  while (step.microbatch.size() < wanted) {
    step.microbatch.push_back(later_microbatch(steady.microbatch.front(), source_held, held, next_tensor, names));
    KernelCopier copier(steady.kernels, step.kernels);
    for (Op& op : step.microbatch.back()) copier.copy(op, names);
    next_tensor += static_cast<std::uint32_t>(names.size());
    held.clear();
    for (const Allocation& a : source_held) held.push_back(names.at(a.tensor));
  }
  Renaming renamed{first_held, held};
  rename_frees(step.after, by_old_name(renamed), 0);
  rename_loss(step, renamed);
  return renamed;
}

/// Which program's microbatch a step repeats: the last one's, or where steps differ its own. A process's first has what
/// a later one of its size asks for.
std::size_t steady_source(const Workload& workload, std::size_t step) {
  const std::size_t last = workload.steps.size() - 1;
  if (workload.recorded.empty() || last == 0) return last;
  if (step > 0) return step;
  for (std::size_t k = 1; k <= last; ++k)
    if (workload.recorded[k].seq > 0 && workload.recorded[k].seq == workload.recorded[0].seq &&
        workload.recorded[k].batch == workload.recorded[0].batch)
      return k;
  return 1;
}

}  // namespace

Result<void> set_microbatches(Workload& workload, std::uint32_t captured, std::uint32_t wanted) {
  std::vector<CutStep> steps;
  std::vector<Renaming> kept;
  std::uint32_t next_tensor = 0;  // the same in every step, so that a step can name the tensors of the one before
  for (std::size_t i = 0; i < workload.steps.size(); ++i) {
    auto step = cut(workload.steps[i]);
    FORESHARD_TRY(step);
    if (step->microbatch.size() != captured)
      return fail(ErrorKind::mismatch,
                  fmt::format("a step of the workload has {} microbatches, its settings say {}",
                              step->microbatch.size(), captured),
                  {}, "accumulate in the about file must be that of the recorded run");
    step->handed_on = freed_of_step_before(workload.steps[program_of_step(workload, i + 1)]);
    kept.push_back(keep_first(*step));
    next_tensor = std::max(next_tensor, tensors_of(workload.steps[i]));
    steps.push_back(std::move(*step));
  }
  rename_handed_on(steps, kept);
  const std::vector<CutStep> sources = steps;
  std::vector<Renaming> renamed;
  for (std::size_t i = 0; i < steps.size(); ++i)
    renamed.push_back(repeat(steps[i], sources[steady_source(workload, i)], wanted, next_tensor));
  rename_handed_on(steps, renamed);
  for (std::size_t i = 0; i < steps.size(); ++i) workload.steps[i] = assemble(steps[i]);
  return {};
}

}  // namespace foreshard
