#include "core/adapt/split_root.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace foreshard {
namespace {

enum class Part : std::uint8_t { unknown = 0, embedding = 1, head = 2, both = 3 };

tl::unexpected<Error> refuse(std::string what) {
  return fail(ErrorKind::usage, std::move(what));
}

bool is_hook(const Op& op, Hook hook, bool root) {
  return op.kind == OpKind::hook && op.hook == hook && op.unit.valid() && (op.unit == kRootUnit) == root;
}

/// By the root's parameters, which are the first ones.
std::vector<Part> parts_of(const Workload& workload) {
  std::vector<Part> parts(workload.units.front().parameters.size());
  for (const Program& step : workload.steps) {
    bool blocks = false;  // some block's backward has begun
    for (const Op& op : step.ops) {
      if (op.kind == OpKind::hook && op.hook == Hook::backward_begin) blocks = false;
      blocks |= is_hook(op, Hook::pre_backward, false);
      if (op.kind != OpKind::alloc || !op.gradient_of.valid() || op.gradient_of.value >= parts.size()) continue;
      const Part here = blocks ? Part::embedding : Part::head;
      Part& part = parts[op.gradient_of.value];
      part = part == Part::unknown || part == here ? here : Part::both;
    }
  }
  return parts;
}

/// Modules of the parameters, each once: "norm, head" of "norm.weight" and "head.weight".
std::string modules_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> modules;
  for (const Parameter& p : parameters) {
    const std::string module = p.name.substr(0, p.name.rfind('.'));
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
  }
  std::string text;
  for (const std::string& module : modules) text += (text.empty() ? "" : ", ") + module;
  return text;
}

/// The new order of units: the root, the embedding, the blocks, the head.
class Splitter {
 public:
  Splitter(const Workload& workload, const std::vector<Part>& parts) : out_{workload, {}, {}} {
    const std::vector<Unit>& old = workload.units;
    const auto blocks = static_cast<std::uint32_t>(old.size() - 1);
    head_ = UnitId{blocks + 2};
    Unit root = old.front(), embedding, head;
    root.parameters.clear();
    std::vector<std::uint32_t> embeddings, heads;
    for (std::uint32_t i = 0; i < parts.size(); ++i) {
      const bool first = parts[i] == Part::embedding;
      (first ? embedding : head).parameters.push_back(old.front().parameters[i]);
      (first ? embeddings : heads).push_back(i);
    }
    embedding.name = out_.embedding = modules_of(embedding.parameters);
    head.name = out_.head = modules_of(head.parameters);
    std::uint32_t all = 0;
    for (const Unit& unit : old) all += static_cast<std::uint32_t>(unit.parameters.size());
    std::vector<std::uint32_t> order = embeddings;  // old numbers of the parameters, in the new order
    for (auto i = static_cast<std::uint32_t>(parts.size()); i < all; ++i) order.push_back(i);
    order.insert(order.end(), heads.begin(), heads.end());
    renumbered_.resize(all);
    for (std::uint32_t i = 0; i < all; ++i) renumbered_[order[i]] = ParameterId{i};
    out_.workload.units = {std::move(root), std::move(embedding)};
    out_.workload.units.insert(out_.workload.units.end(), old.begin() + 1, old.end());
    out_.workload.units.push_back(std::move(head));
  }

  SplitRoot split() {
    Workload& workload = out_.workload;
    workload.sections.clear();
    for (ParameterId& id : workload.parameters_order) rename(id);
    rename(workload.setup);
    for (Program& step : workload.steps) {
      rename(step);
      step.ops = with_hooks(step.ops);
    }
    return std::move(out_);
  }

 private:
  void rename(ParameterId& id) const {
    if (id.value < renumbered_.size()) id = renumbered_[id.value];
  }
  void rename(Program& program) const {
    for (Op& op : program.ops) {
      rename(op.gradient_of);
      if (op.kind == OpKind::alloc) rename(op.size.parameter);
      if (op.unit.valid() && op.unit != kRootUnit) op.unit = UnitId{op.unit.value + 1};
    }
    for (ProgramKernel& kernel : program.kernels)
      for (Operand& operand : kernel.where) {
        if (operand.kind < Operand::Kind::parameter) continue;
        ParameterId id{operand.id};
        rename(id);
        operand.id = id.value;
      }
  }

  /// Costs the host what the first block's costs it.
  static Op hook_of(const std::vector<Op>& ops, Hook hook, UnitId unit) {
    Op out;
    out.kind = OpKind::hook;
    out.hook = hook;
    out.unit = unit;
    const auto block = std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return is_hook(op, hook, false); });
    if (block != ops.end()) out.host_before = block->host_before;
    return out;
  }

  /// Of one step, whose units are renamed.
  [[nodiscard]] std::vector<Op> with_hooks(const std::vector<Op>& ops) const {
    const UnitId embedding{1};
    std::vector<Op> out;
    const auto add = [&](Hook hook, UnitId unit) { out.push_back(hook_of(ops, hook, unit)); };
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (is_hook(op, Hook::pre_forward, false) && first_since(ops, i, Hook::forward_begin))
        add(Hook::post_forward, embedding);
      if (is_hook(op, Hook::pre_backward, false) && first_since(ops, i, Hook::backward_begin))
        add(Hook::post_backward, head_);
      if (is_hook(op, Hook::post_forward, true)) add(Hook::post_forward, head_);
      out.push_back(op);
      if (is_hook(op, Hook::pre_forward, true)) add(Hook::pre_forward, embedding);
      if (is_hook(op, Hook::post_forward, false) && last_before(ops, i, Hook::forward_end))
        add(Hook::pre_forward, head_);
      if (is_hook(op, Hook::pre_backward, true)) add(Hook::pre_backward, head_);
      if (is_hook(op, Hook::post_backward, false) && last_before(ops, i, Hook::backward_end))
        add(Hook::pre_backward, embedding);
    }
    return out;
  }

  /// Whether the block's hook at `i` is the first of its kind behind the last `begin`.
  static bool first_since(const std::vector<Op>& ops, std::size_t i, Hook begin) {
    for (std::size_t k = i; k-- > 0;) {
      if (ops[k].kind == OpKind::hook && ops[k].hook == begin) return true;
      if (is_hook(ops[k], ops[i].hook, false)) return false;
    }
    return false;
  }
  static bool last_before(const std::vector<Op>& ops, std::size_t i, Hook end) {
    for (std::size_t k = i + 1; k < ops.size(); ++k) {
      if (ops[k].kind == OpKind::hook && ops[k].hook == end) return true;
      if (is_hook(ops[k], ops[i].hook, false)) return false;
    }
    return false;
  }

  SplitRoot out_;
  UnitId head_;
  std::vector<ParameterId> renumbered_;  // by old number
};

}  // namespace

Result<SplitRoot> split_root(const Workload& workload) {
  if (workload.units.size() < 2 || workload.units.front().parameters.empty())
    return refuse("the root holds no parameters of its own");
  if (!workload.units.front().groups.empty()) return refuse("the root has several parameter groups");
  const std::vector<Part> parts = parts_of(workload);
  const auto any = [&](Part part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  if (any(Part::unknown))
    return refuse("not all of the root's parameters are trained: which of them are the head's is not known");
  // Tied weights are one parameter, whose gradient is complete behind the embedding's backward.
  const auto holds_matrix = [&](Part part) {
    const std::vector<Parameter>& root = workload.units.front().parameters;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i] == part && root[i].shape.size() > 1) return true;
    return false;
  };
  const bool embedding = holds_matrix(Part::embedding), head = holds_matrix(Part::head);
  if (any(Part::both) || embedding != head)
    return refuse("embedding and head share their weights (tied): one unit must hold both");
  if (!embedding) return refuse("the root holds no embedding and no head");
  return Splitter(workload, parts).split();
}

}  // namespace foreshard
