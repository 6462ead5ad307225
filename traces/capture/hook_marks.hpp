// The starts and ends of ranges that matter for hook places, in host order. Inner part of hooks.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

struct HookMark {
  enum class Kind : std::uint8_t {
    user_begin,  ///< the user's range around zero_grad
    user_forward,
    user_backward,
    user_optimizer,
    zero_grad,
    root_pre_forward,
    pre_forward,
    post_forward,
    pre_backward,
    post_backward,
    final_callback,
    optimizer_step,
    cast_outputs,  ///< of whichever unit's post-forward it follows
  };
  Kind kind = Kind::zero_grad;
  bool end = false;
  Nanoseconds time;
  UnitId unit;
};

struct HookMarks {
  std::vector<HookMark> marks;
  bool has_root_pre_forward = false;
  bool root_is_empty = false;  ///< the root has no parameters: FSDP2 acts at it, but in no range
  std::uint64_t unknown = 0;   ///< FSDP:: ranges that no rule knows
};

/// See find_hooks for what is asked of the ranges.
[[nodiscard]] Result<HookMarks> hook_marks(std::span<const Range> ranges, std::span<const Unit> units);

}  // namespace foreshard::traces
