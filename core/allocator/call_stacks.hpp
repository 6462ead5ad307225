// Call stacks as a memory snapshot records them, interned: a tree whose nodes are stacks, so that what many stacks
// share on the side of their callers is kept once.
//
// Who: traces/pytorch fills it, core/run and traces/store keep it. Plain data; ids are given in order of first use, so
// equal inputs give equal tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

/// One frame of torch.cuda.memory._snapshot(): a line of Python, or a C++ function (whose line is mostly unknown).
struct StackFrame {
  std::string file;        ///< "/…/torch/nn/modules/linear.py", "CUDACachingAllocator.cpp", "??", ""
  std::uint32_t line = 0;  ///< 0: not known
  std::string function;    ///< Python's co_name, or the demangled C++ function
};

/// A stack: its innermost frame, and the stack of what called that.
struct CallStack {
  FrameId frame;
  StackId caller;  ///< invalid: `frame` is the outermost; else of a lower id than this stack
};

class CallStacks {
 public:
  FrameId frame(std::string_view file, std::uint32_t line, std::string_view function);
  /// The stack in which `frame` was called by `caller`. Both must be of this table; an invalid caller is none.
  StackId stack(FrameId frame, StackId caller);

  [[nodiscard]] const std::vector<StackFrame>& frames() const { return frames_; }
  [[nodiscard]] const std::vector<CallStack>& stacks() const { return stacks_; }
  /// Innermost first, as PyTorch lists them; empty for an invalid id.
  [[nodiscard]] std::vector<FrameId> frames_of(StackId stack) const;

 private:
  std::vector<StackFrame> frames_;
  std::vector<CallStack> stacks_;
  std::unordered_map<std::string, FrameId> frame_ids_;  // lookup only, never iterated, as is …
  std::unordered_map<std::uint64_t, StackId> stack_ids_;
};

}  // namespace foreshard
