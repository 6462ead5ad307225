// Non-reentrant activation checkpointing of every block, put into a program that was recorded without it
// (fsdp2 semantics 13.4).
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"

namespace foreshard {
namespace {

/// One unit's forward in one microbatch, and what of it is made anew in backward. Places are those of the recorded ops.
struct BlockForward {
  std::size_t pre_forward = SIZE_MAX;
  std::size_t post_forward = SIZE_MAX;
  std::size_t pre_backward = SIZE_MAX;
  std::vector<TensorId> saved;     ///< tensors of the forward that its backward reads, in order of allocation
  std::vector<Op> recompute;       ///< the forward's ops up to the last saved allocation
  std::uint32_t first_tensor = 0;  ///< the recomputed tensors' names, from here on
};

bool frees_own(const Op& op) {
  return op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording;
}

bool is_hook_of_block(const Op& op) {
  return op.kind == OpKind::hook && op.unit.valid() && op.unit != kRootUnit;
}

bool begins_microbatch(const Op& op) {
  return op.kind == OpKind::hook && op.hook == Hook::microbatch_begin;
}

Op free_of(TensorId tensor) {
  Op op;
  op.kind = OpKind::free;
  op.tensor = tensor;
  return op;
}

/// Puts recomputation into one program. Each microbatch is planned as a whole, block by block, and then written once:
/// linear in the program's ops, times a logarithm.
class Checkpointer {
 public:
  Checkpointer(Program& program, std::size_t units)
      : program_(program), ops_(program.ops), units_(units), copier_(program.kernels, program.kernels) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind == OpKind::alloc) next_tensor_ = std::max(next_tensor_, ops_[i].tensor.value + 1);
      if (frees_own(ops_[i])) freed_at_.emplace(ops_[i].tensor.value, i);
    }
  }

  void run() {
    std::size_t begin = 0;
    while (begin < ops_.size()) {
      std::size_t end = begin + 1;
      while (end < ops_.size() && !begins_microbatch(ops_[end])) ++end;
      if (begins_microbatch(ops_[begin])) plan(begin, end);
      write(begin, end);
      blocks_.clear();
      begin = end;
    }
    program_.ops = std::move(out_);
  }

 private:
  /// In order of units: of nested ones the first takes what the others would save.
  void plan(std::size_t begin, std::size_t end) {
    blocks_.assign(units_, {});
    for (std::size_t i = begin; i < end; ++i) {
      const Op& op = ops_[i];
      if (!is_hook_of_block(op) || op.unit.value >= units_) continue;
      BlockForward& block = blocks_[op.unit.value];
      const bool ran = block.post_forward != SIZE_MAX;
      if (op.hook == Hook::pre_forward && block.pre_forward == SIZE_MAX) block.pre_forward = i;
      if (op.hook == Hook::post_forward && block.pre_forward != SIZE_MAX && !ran) block.post_forward = i;
      if (op.hook == Hook::pre_backward && ran && block.pre_backward == SIZE_MAX) block.pre_backward = i;
    }
    for (BlockForward& block : blocks_)
      if (block.pre_backward != SIZE_MAX) plan(block);
  }

  void plan(BlockForward& block) {
    const std::vector<Op> forward = forward_of(block);
    std::size_t last_saved = 0;
    std::set<TensorId> saved;
    for (std::size_t i = 0; i < forward.size(); ++i) {
      if (forward[i].kind != OpKind::alloc || forward[i].gradient_of.valid()) continue;
      const auto freed = freed_at_.find(forward[i].tensor.value);
      if (freed == freed_at_.end() || freed->second < block.pre_backward) continue;  // permanent, or gone before
      saved.insert(forward[i].tensor);
      block.saved.push_back(forward[i].tensor);
      last_saved = i + 1;
    }
    for (std::size_t i = last_saved; i < forward.size(); ++i)  // what fills the last ones, where that is known
      if (writes_to(program_, forward[i], saved)) last_saved = i + 1;
    std::set<TensorId> live;
    block.first_tensor = next_tensor_;
    for (std::size_t i = 0; i < last_saved; ++i) {
      const Op& op = forward[i];
      const bool permanent = op.kind == OpKind::alloc && !freed_at_.contains(op.tensor.value);
      if (permanent || op.kind == OpKind::hook) continue;
      if (op.kind == OpKind::free && (!frees_own(op) || live.erase(op.tensor) == 0)) continue;
      if (op.kind == OpKind::alloc) {
        live.insert(op.tensor);
        ++next_tensor_;
      }
      block.recompute.push_back(op);
    }
    for (TensorId tensor : live)  // the early stop drops what the rest of the forward would have used
      if (!saved.contains(tensor)) block.recompute.push_back(free_of(tensor));
    for (TensorId tensor : block.saved) freed_at_[tensor.value] = block.post_forward;
  }

  /// With what blocks inside of it, planned before, free behind their forwards.
  [[nodiscard]] std::vector<Op> forward_of(const BlockForward& block) const {
    std::vector<Op> forward;
    for (std::size_t i = block.pre_forward + 1; i < block.post_forward; ++i) {
      if (const BlockForward* inner = ends_forward(i))
        for (TensorId tensor : inner->saved) forward.push_back(free_of(tensor));
      forward.push_back(ops_[i]);
    }
    return forward;
  }

  [[nodiscard]] const BlockForward* ends_forward(std::size_t i) const {
    if (!is_hook_of_block(ops_[i]) || ops_[i].unit.value >= blocks_.size()) return nullptr;
    const BlockForward& block = blocks_[ops_[i].unit.value];
    return block.post_forward == i ? &block : nullptr;
  }

  [[nodiscard]] const BlockForward* begins_backward(std::size_t i) const {
    if (!is_hook_of_block(ops_[i]) || ops_[i].unit.value >= blocks_.size()) return nullptr;
    const BlockForward& block = blocks_[ops_[i].unit.value];
    return block.pre_backward == i ? &block : nullptr;
  }

  void write(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (const BlockForward* block = ends_forward(i))
        for (TensorId tensor : block->saved) out_.push_back(free_of(tensor));
      Op op = ops_[i];
      if (frees_own(op)) rename(op.tensor);
      copier_.copy(op, names_);
      out_.push_back(op);
      if (const BlockForward* block = begins_backward(i)) write(*block);
    }
  }

  void write(const BlockForward& block) {
    std::uint32_t next = block.first_tensor;
    for (Op op : block.recompute) {
      if (op.kind == OpKind::alloc) names_[op.tensor] = TensorId{next++};
      if (op.kind == OpKind::alloc || op.kind == OpKind::free) rename(op.tensor);
      copier_.copy(op, names_);
      out_.push_back(op);
    }
  }

  void rename(TensorId& tensor) const {
    if (const auto name = names_.find(tensor); name != names_.end()) tensor = name->second;
  }

  Program& program_;
  const std::vector<Op>& ops_;
  std::size_t units_;
  KernelCopier copier_;
  std::uint32_t next_tensor_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> freed_at_;  ///< by tensor; looked up only
  std::vector<BlockForward> blocks_;                         ///< of the microbatch at hand, by unit
  std::map<TensorId, TensorId> names_;                       ///< what was recomputed, by what it was recorded as
  std::vector<Op> out_;
};

}  // namespace

Result<void> checkpoint_blocks(Workload& workload) {
  for (Program& program : workload.steps) {
    Checkpointer(program, workload.units.size()).run();
    if (!kernels_hold(program)) drop_kernels(program);
  }
  return {};
}

}  // namespace foreshard
