#include "core/models/fuse.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace foreshard::model {
namespace {

bool fusible(const Op& op) {
  return op.kind == OpKind::kernel && op.user_stream == 0 && op.kernel.math.kind == KernelMath::Kind::bytes &&
         op.kernel.kernel_class == KernelClass::memory_bound;
}

/// Ends a group: the order of these and of the kernels around them is kept.
bool boundary(const Op& op) {
  return op.kind == OpKind::hook || op.kind == OpKind::synchronize || op.kind == OpKind::copy ||
         (op.kind == OpKind::kernel && !fusible(op));
}

bool frees_here(const Op& op) {
  return op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording;
}

/// Sums over rows: weights' and biases' gradients, which Inductor leaves to a kernel of their own.
bool sums_columns(const Op& op) {
  return op.kernel.math.access == MemoryAccess::column;
}

/// The ops between two boundaries.
class Group {
 public:
  Group(const std::vector<Op>& ops, std::size_t begin, std::size_t end) : ops_(ops), begin_(begin), end_(end) {
    find_internal();
    measure();
  }

  void write(std::vector<Op>& out, Nanoseconds launch, LabelId label) const {
    const bool join = joined_ > 1;
    for (std::size_t i = begin_; i < end_; ++i) {
      Op op = ops_[i];
      op.host_before = {};
      if (op.kind == OpKind::kernel) {
        if (join && !sums_columns(op) && i != last_) continue;
        op.host_before = launch;
        if (join && i == last_) become_joined(op, label);
      }
      const bool vanishes = (op.kind == OpKind::alloc || frees_here(op)) && internal_.contains(op.tensor);
      if (!join || !vanishes) out.push_back(op);
    }
  }

 private:
  void become_joined(Op& op, LabelId label) const {
    op.label = op.kernel.label = label;
    op.kernel.bytes = bytes_;
    op.kernel.math.m = elements_;
    op.kernel.math.access = rows_ ? MemoryAccess::row : MemoryAccess::contiguous;
  }

  /// Tensors made and gone between the boundaries.
  void find_internal() {
    std::set<TensorId> made;
    for (std::size_t i = begin_; i < end_; ++i) {
      const Op& op = ops_[i];
      if (op.kind == OpKind::alloc && !op.gradient_of.valid()) made.insert(op.tensor);
      if (frees_here(op) && made.contains(op.tensor)) internal_.insert(op.tensor);
    }
  }

  /// What the joined kernel moves. A kernel writes what was allocated since the kernel before it and reads the rest of
  /// its bytes: first of all what the group itself made and still holds, which the joined kernel has in registers.
  void measure() {
    std::map<TensorId, Bytes> held;
    Bytes held_bytes = 0;
    Bytes fresh = 0;  // allocated since the last kernel
    Bytes kept = 0;   // of that, what outlives the group
    for (std::size_t i = begin_; i < end_; ++i) {
      const Op& op = ops_[i];
      if (op.kind == OpKind::alloc) {
        fresh += op.size.bytes;
        if (!internal_.contains(op.tensor)) kept += op.size.bytes;
        held[op.tensor] = op.size.bytes;
      } else if (frees_here(op) && held.contains(op.tensor)) {
        held_bytes -= std::min(held_bytes, held[op.tensor]);
        held.erase(op.tensor);
      } else if (op.kind == OpKind::kernel && !sums_columns(op)) {
        const Bytes reads = op.kernel.bytes - std::min(op.kernel.bytes, fresh);
        bytes_ += kept + reads - std::min(reads, held_bytes);
        held_bytes += fresh;
        fresh = kept = 0;
        ++joined_;
        last_ = i;
        elements_ = std::max(elements_, op.kernel.math.m);
        rows_ = rows_ || op.kernel.math.access == MemoryAccess::row;
      }
    }
  }

  const std::vector<Op>& ops_;
  std::size_t begin_;
  std::size_t end_;
  std::set<TensorId> internal_;
  std::uint32_t joined_ = 0;
  std::size_t last_ = 0;
  Bytes bytes_ = 0;
  std::uint64_t elements_ = 0;
  bool rows_ = false;
};

/// Whether what follows a hook is code of a compiled block.
bool inside_block(const Op& hook, bool now) {
  switch (hook.hook) {
    case Hook::pre_forward:
    case Hook::pre_backward:
      return hook.unit.valid() && hook.unit != kRootUnit;
    case Hook::post_forward:
    case Hook::post_backward:
    case Hook::backward_final:
    case Hook::forward_end:
      return false;
    default:
      return now;
  }
}

std::vector<Op> compiled(const std::vector<Op>& ops, Nanoseconds launch, LabelId label) {
  std::vector<Op> out;
  bool inside = false;
  for (std::size_t i = 0; i < ops.size();) {
    if (boundary(ops[i]) || !inside) {
      if (ops[i].kind == OpKind::hook) inside = inside_block(ops[i], inside);
      out.push_back(ops[i++]);
      continue;
    }
    std::size_t end = i;
    while (end < ops.size() && !boundary(ops[end])) ++end;
    Group(ops, i, end).write(out, launch, label);
    i = end;
  }
  return out;
}

}  // namespace

void compile_blocks(Workload& workload, const HostCosts& host) {
  const LabelId label = workload.labels.intern("torch.compile fused");
  for (Program& step : workload.steps) step.ops = compiled(step.ops, host[HostCall::elementwise], label);
}

}  // namespace foreshard::model
