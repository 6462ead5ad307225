// What a block of memory is called where people see it: what it belongs to, which operator made it, and from which
// line.
//
// Who: cli's explain, viz, traces/export. Pure; deterministic. What the run knows decides: a parameter's name, the FSDP
// unit, the module whose forward or backward made it; the operator of the stack, of the plan, or the innermost range.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/run/run.hpp"
#include "core/run/stack_meaning.hpp"

namespace foreshard {

class BlockNames {
 public:
  /// What names are made of: blocks of one key have the same.
  using Key = std::tuple<ParameterId, UnitId, LabelId, LabelId, LabelId, StackId, MemoryCategory>;
  [[nodiscard]] static Key key(const BlockRecord& block) {
    return {block.parameter, block.unit, block.module, block.op, block.label, block.stack, block.category};
  }

  /// `run` must outlive this.
  explicit BlockNames(const Run& run);

  /// "layers.3.attention.wq.weight", "layers.3", "(root)"; empty where nothing tells.
  [[nodiscard]] std::string owner(const BlockRecord& block) const;
  /// "aten::mm", "FSDP::all_gather", "## forward ##"; may be empty.
  [[nodiscard]] std::string op(const BlockRecord& block) const;
  /// "modeling_llama.py:245 forward": the innermost frame that is not PyTorch's own; empty without one.
  [[nodiscard]] std::string frame(StackId stack) const;
  /// The same with the whole path, "/…/modeling_llama.py:245 forward".
  [[nodiscard]] std::string whole_frame(StackId stack) const;

  /// "aten::mm" of a stack with C++ frames; else empty.
  [[nodiscard]] std::string op_of(StackId stack) const { return stacks_.op(stack); }

  /// Owner and operator in one: "layers.3.attention.wq: aten::mm". Falls back to the category.
  [[nodiscard]] std::string title(const BlockRecord& block) const;

  /// The module of which the block is, with `*` for the numbers of repeated ones: "layers.*.attention.wq", "(root)";
  /// empty where nothing tells.
  [[nodiscard]] std::string module_pattern(const BlockRecord& block) const;

 private:
  const Run& run_;
  StackMeanings stacks_;
  std::vector<const std::string*> parameters_;  // by ParameterId
};

/// "layers.3.mlp" as "layers.*.mlp".
[[nodiscard]] std::string with_numbers_starred(std::string_view module);

}  // namespace foreshard
