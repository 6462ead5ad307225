// A small hand-made workload: a root and equal blocks, one or more microbatches a step, with the kinds of tensors
// that matter to core/workload: inputs and loss that outlive their microbatch, activations, temporaries, a permanent
// workspace of the first step, gradients. No kernels.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "core/workload/workload.hpp"
#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {

/// Writes one program; tensors are named by words and numbered by appearance.
class ProgramWriter {
 public:
  void alloc(const std::string& name, Bytes bytes, MemoryCategory category = MemoryCategory::activations) {
    Op op;
    op.kind = OpKind::alloc;
    op.tensor = tensors_[name] = TensorId{next_++};
    op.size = {AllocationSize::Kind::fixed, bytes, {}};
    op.category = category;
    program.ops.push_back(op);
  }
  void input_cast(const std::string& name, Bytes bytes, UnitId unit) {
    alloc(name, bytes);
    program.ops.back().unit = unit;
  }
  void gradient(ParameterId parameter, Bytes bytes) {
    alloc(fmt::format("grad {} {}", parameter.value, next_), bytes, MemoryCategory::gradients);
    program.ops.back().gradient_of = parameter;
  }
  void free(const std::string& name) {
    Op op;
    op.kind = OpKind::free;
    op.tensor = tensors_.at(name);
    program.ops.push_back(op);
  }
  void free_of_step_before(TensorId tensor) {
    Op op;
    op.kind = OpKind::free;
    op.tensor = tensor;
    op.steps_ago = 1;
    program.ops.push_back(op);
  }
  void hook(Hook what, UnitId unit = {}) {
    Op op;
    op.kind = OpKind::hook;
    op.hook = what;
    op.unit = unit;
    program.ops.push_back(op);
  }
  [[nodiscard]] TensorId tensor(const std::string& name) const { return tensors_.at(name); }

  Program program;

 private:
  std::map<std::string, TensorId> tensors_;
  std::uint32_t next_ = 0;
};

/// Bytes of everything, so that a test can tell blocks apart by size.
inline constexpr Bytes kInput = 1000;
inline constexpr Bytes kLoss = 4;
inline constexpr Bytes kWorkspace = 7'000'000;
inline constexpr Bytes kSaved = 20'000;
inline constexpr Bytes kTemporary = 3'000'000;
inline constexpr Bytes kOutput = 50'000;

/// Of all groups.
inline std::vector<ParameterPlan> parameters_of(const UnitPlan& plan) {
  std::vector<ParameterPlan> out;
  for (const ParamGroupPlan& group : plan.groups)
    out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

struct ProgramSettings {
  std::uint32_t blocks = 2;
  std::uint32_t microbatches = 1;
  bool first = false;  ///< allocates the workspaces
};

/// A block's forward: a temporary, a saved tensor, its output (kept by the next block's backward).
inline void write_microbatch(ProgramWriter& w, const ProgramSettings& c, std::uint32_t m,
                             const std::vector<UnitPlan>& plans) {
  const auto name = [&](const char* what, std::uint32_t block) { return fmt::format("{} {}.{}", what, m, block); };
  w.hook(Hook::microbatch_begin);
  w.alloc(name("input", 0), kInput, MemoryCategory::inputs);
  if (m > 0) w.free(fmt::format("input {}.0", m - 1));  // Python binds `x` again
  w.hook(Hook::forward_begin);
  w.hook(Hook::pre_forward, kRootUnit);
  for (std::uint32_t b = 1; b <= c.blocks; ++b) {
    w.input_cast(name("cast", b), 600, UnitId{b});
    w.hook(Hook::pre_forward, UnitId{b});
    w.alloc(name("temporary", b), kTemporary, MemoryCategory::temporaries);
    if (c.first && m == 0 && b == 1) w.alloc("workspace", kWorkspace, MemoryCategory::workspaces);
    w.alloc(name("saved", b), kSaved + b);
    w.free(name("temporary", b));
    w.alloc(name("output", b), kOutput + b);
    w.hook(Hook::post_forward, UnitId{b});
    w.free(name("cast", b));
  }
  w.hook(Hook::post_forward, kRootUnit);
  w.alloc(name("loss", 0), kLoss);
  if (m > 0) w.free(fmt::format("loss {}.0", m - 1));
  w.hook(Hook::forward_end);
  w.hook(Hook::backward_begin);
  w.hook(Hook::pre_backward, kRootUnit);
  for (const ParameterPlan& p : parameters_of(plans[0])) w.gradient(p.id, p.gradient);
  for (std::uint32_t b = c.blocks; b >= 1; --b) {
    w.free(name("output", b));  // by what follows the block
    w.hook(Hook::pre_backward, UnitId{b});
    w.alloc(name("backward temporary", b), kTemporary, MemoryCategory::temporaries);
    w.free(name("saved", b));
    for (const ParameterPlan& p : parameters_of(plans[b])) w.gradient(p.id, p.gradient);
    w.free(name("backward temporary", b));
    w.hook(Hook::post_backward, UnitId{b});
  }
  w.hook(Hook::backward_final);
  w.hook(Hook::backward_end);
  w.hook(Hook::microbatch_end);
}

inline Program small_step(const ProgramSettings& c, const std::vector<UnitPlan>& plans) {
  ProgramWriter w;
  w.hook(Hook::zero_grad);
  for (std::uint32_t m = 0; m < c.microbatches; ++m) write_microbatch(w, c, m, plans);
  w.hook(Hook::optimizer_begin);
  w.hook(Hook::optimizer_step);
  w.hook(Hook::optimizer_end);
  w.free(fmt::format("loss {}.0", c.microbatches - 1));
  w.free(fmt::format("input {}.0", c.microbatches - 1));
  return w.program;
}

/// Setup makes the shards in the order of model.parameters(): the blocks', then the root's.
inline Program small_setup(const std::vector<UnitPlan>& plans) {
  ProgramWriter w;
  for (std::size_t u = 1; u <= plans.size(); ++u) {
    for (const ParameterPlan& p : parameters_of(plans[u % plans.size()])) {
      w.alloc(fmt::format("shard {}", p.id.value), p.shard, MemoryCategory::parameters);
      w.program.ops.back().size = {AllocationSize::Kind::local_shard, p.shard, p.id};
    }
  }
  return w.program;
}

inline Workload small_workload(const Settings& settings, const std::vector<Unit>& units) {
  Workload w;
  w.sm_count = 132;
  w.name = "small";
  w.settings = settings;
  w.units = units;
  const auto blocks = static_cast<std::uint32_t>(units.size()) - 1;
  const auto plans = plan_units(settings, w.units, w.sm_count).value();
  w.setup = small_setup(plans);
  w.steps.push_back(small_step({blocks, settings.accumulate, true}, plans));
  w.steps.push_back(small_step({blocks, settings.accumulate, false}, plans));
  w.shards_known = true;
  w.optimizer_known = true;
  for (std::size_t u = 1; u <= plans.size(); ++u)
    for (const ParameterPlan& p : parameters_of(plans[u % plans.size()])) w.parameters_order.push_back(p.id);
  return w;
}
inline Workload small_workload(const Settings& settings, std::uint32_t blocks = 2) {
  return small_workload(settings, small_units(blocks));
}

/// One line an op, tensors numbered by first appearance, so that equal behaviour reads equal.
inline std::vector<std::string> text_of(const Program& program) {
  std::map<TensorId, std::size_t> numbers;
  std::vector<std::string> lines;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::hook) {
      lines.push_back(fmt::format("hook {} {}", static_cast<int>(op.hook),
                                  op.unit.valid() ? std::to_string(op.unit.value) : std::string("-")));
      continue;
    }
    if (op.kind == OpKind::alloc) numbers[op.tensor] = numbers.size();
    const std::string tensor =
        op.steps_ago > 0 ? fmt::format("{} steps ago", op.steps_ago) : std::to_string(numbers.at(op.tensor));
    lines.push_back(fmt::format("{} {} {}", op.kind == OpKind::alloc ? "alloc" : "free", tensor, op.size.bytes));
  }
  return lines;
}

/// What is wrong with a program's memory: a free of nothing, a double free, a tensor named twice. Empty: nothing.
inline std::string flaw_of(const Program& program) {
  std::map<TensorId, bool> live;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::alloc && !live.emplace(op.tensor, true).second)
      return fmt::format("op {}: tensor {} is allocated twice", i, op.tensor.value);
    if (op.kind != OpKind::free || op.steps_ago > 0 || op.from_setup || op.before_recording) continue;
    const auto it = live.find(op.tensor);
    if (it == live.end() || !it->second) return fmt::format("op {}: tensor {} is not live", i, op.tensor.value);
    it->second = false;
  }
  return {};
}

/// Bytes that a program allocates and never frees, gradients aside.
inline Bytes kept_bytes(const Program& program) {
  std::map<TensorId, Bytes> live;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live[op.tensor] = op.size.bytes;
    if (op.kind == OpKind::free && op.steps_ago == 0) live.erase(op.tensor);
  }
  Bytes total = 0;
  for (const auto& [tensor, bytes] : live) total += bytes;
  return total;
}

}  // namespace foreshard::test
