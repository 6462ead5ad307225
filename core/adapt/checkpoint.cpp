// Non-reentrant activation checkpointing of every block, put into a program that was recorded without it
// (fsdp2 semantics 13.4).
#include <algorithm>
#include <map>
#include <set>

#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"

namespace foreshard {
namespace {

struct BlockForward {
  std::vector<Op> recompute;          ///< the forward's ops up to the last saved allocation
  std::set<TensorId> saved;           ///< tensors of the forward that its backward reads
  std::vector<TensorId> saved_order;  ///< the same, in order of allocation
};

bool frees(const Op& op, TensorId tensor) {
  return op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording && op.tensor == tensor;
}

std::size_t find_hook(const std::vector<Op>& ops, std::size_t from, Hook hook, UnitId unit) {
  for (std::size_t i = from; i < ops.size(); ++i)
    if (ops[i].kind == OpKind::hook && ops[i].hook == hook && ops[i].unit == unit) return i;
  return ops.size();
}

/// What the block's forward (ops [begin, end)) keeps for its backward, which starts at `backward`.
BlockForward block_forward(const Program& program, std::size_t begin, std::size_t end, std::size_t backward) {
  const std::vector<Op>& ops = program.ops;
  BlockForward block;
  std::size_t last_saved = begin;
  std::map<TensorId, std::size_t> freed_at;
  for (std::size_t i = begin; i < ops.size(); ++i)
    if (ops[i].kind == OpKind::free && ops[i].steps_ago == 0 && !ops[i].from_setup && !ops[i].before_recording)
      freed_at.emplace(ops[i].tensor, i);
  for (std::size_t i = begin; i < end; ++i) {
    if (ops[i].kind != OpKind::alloc || ops[i].gradient_of.valid()) continue;
    const auto it = freed_at.find(ops[i].tensor);
    if (it == freed_at.end() || it->second < backward) continue;  // permanent, or gone before the backward
    block.saved.insert(ops[i].tensor);
    block.saved_order.push_back(ops[i].tensor);
    last_saved = i + 1;
  }
  for (std::size_t i = last_saved; i < end; ++i)  // what fills the last ones, where that is known
    for (TensorId tensor : block.saved_order)
      if (writes_to(program, ops[i], tensor)) last_saved = i + 1;
  std::set<TensorId> live;
  for (std::size_t i = begin; i < last_saved; ++i) {
    Op op = ops[i];
    const bool permanent = op.kind == OpKind::alloc && !freed_at.contains(op.tensor);
    if (permanent || op.kind == OpKind::hook) continue;
    if (op.kind == OpKind::alloc) live.insert(op.tensor);
    if (op.kind == OpKind::free && !live.contains(op.tensor)) continue;
    if (op.kind == OpKind::free) live.erase(op.tensor);
    block.recompute.push_back(op);
  }
  for (TensorId tensor : live) {  // the early stop drops what the rest of the forward would have used
    if (block.saved.contains(tensor)) continue;
    Op op;
    op.kind = OpKind::free;
    op.tensor = tensor;
    block.recompute.push_back(op);
  }
  return block;
}

/// Puts the recomputation of one unit into a program; false when the unit does not run in it.
bool checkpoint_unit(Program& program, std::size_t from, UnitId unit, std::uint32_t& next_tensor) {
  std::vector<Op>& ops = program.ops;
  const std::size_t pre_forward = find_hook(ops, from, Hook::pre_forward, unit);
  const std::size_t post_forward = find_hook(ops, pre_forward, Hook::post_forward, unit);
  const std::size_t pre_backward = find_hook(ops, post_forward, Hook::pre_backward, unit);
  if (pre_backward == ops.size()) return false;
  const BlockForward block = block_forward(program, pre_forward + 1, post_forward, pre_backward);
  std::map<TensorId, TensorId> renamed;
  KernelCopier copier(program.kernels, program.kernels);
  std::vector<Op> out(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(post_forward));
  for (TensorId tensor : block.saved_order) {
    Op op;
    op.kind = OpKind::free;
    op.tensor = tensor;
    out.push_back(op);
  }
  out.insert(out.end(), ops.begin() + static_cast<std::ptrdiff_t>(post_forward),
             ops.begin() + static_cast<std::ptrdiff_t>(pre_backward) + 1);
  for (Op op : block.recompute) {
    if (op.kind == OpKind::alloc) renamed[op.tensor] = TensorId{next_tensor++};
    if (op.kind == OpKind::alloc || op.kind == OpKind::free) op.tensor = renamed.at(op.tensor);
    copier.copy(op, renamed);
    out.push_back(op);
  }
  for (std::size_t i = pre_backward + 1; i < ops.size(); ++i) {
    Op op = ops[i];
    if (op.kind == OpKind::free && frees(op, op.tensor) && block.saved.contains(op.tensor))
      op.tensor = renamed.at(op.tensor);
    copier.copy(op, renamed);
    out.push_back(op);
  }
  ops = std::move(out);
  return true;
}

}  // namespace

Result<void> checkpoint_blocks(Workload& workload) {
  for (Program& program : workload.steps) {
    std::uint32_t next_tensor = 0;
    for (const Op& op : program.ops)
      if (op.kind == OpKind::alloc) next_tensor = std::max(next_tensor, op.tensor.value + 1);
    std::size_t from = 0;
    while (true) {  // each microbatch in turn
      const auto begins = [](const Op& op) { return op.kind == OpKind::hook && op.hook == Hook::microbatch_begin; };
      const auto it = std::find_if(program.ops.begin() + static_cast<std::ptrdiff_t>(from), program.ops.end(), begins);
      if (it == program.ops.end()) break;
      from = static_cast<std::size_t>(it - program.ops.begin()) + 1;
      for (std::uint32_t unit = 1; unit < workload.units.size(); ++unit)
        checkpoint_unit(program, from, UnitId{unit}, next_tensor);
    }
    if (!kernels_hold(program)) drop_kernels(program);
  }
  return {};
}

}  // namespace foreshard
