// What a recorded call stack says in one line: the operator that PyTorch ran, and the first frame of the user's own.
//
// Who: traces/import for the operator of a block, core/run/block_names.hpp for people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/allocator/call_stacks.hpp"

namespace foreshard {

/// Whether a frame is the user's or a library's that uses PyTorch: a line of Python outside of PyTorch's own package,
/// of what torch.compile generates, and of Python's standard library.
[[nodiscard]] bool is_user_frame(const StackFrame& frame);

/// "aten::mm" of a C++ frame `at::_ops::mm::call(…)` (torchgen's generated dispatcher entries); empty of others.
[[nodiscard]] std::string operator_of(std::string_view function);

/// "modeling_llama.py:245 forward".
[[nodiscard]] std::string frame_text(const StackFrame& frame);

class StackMeanings {
 public:
  /// `stacks` must outlive this. Linear in their number.
  explicit StackMeanings(const CallStacks& stacks);

  /// The innermost user frame; invalid: none, as in backward, where autograd's engine calls.
  [[nodiscard]] FrameId user_frame(StackId stack) const { return at(user_, stack); }
  /// The operator that was called from Python or autograd: the outermost one, within which others may have been called;
  /// empty where the stack has no C++ frames.
  [[nodiscard]] std::string op(StackId stack) const;

 private:
  [[nodiscard]] static FrameId at(const std::vector<FrameId>& of, StackId stack) {
    return stack.value < of.size() ? of[stack.value] : FrameId{};
  }
  const CallStacks& stacks_;
  std::vector<FrameId> user_;  // by stack
  std::vector<FrameId> op_;
};

}  // namespace foreshard
