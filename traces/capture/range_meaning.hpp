// What an annotation range of a recording stands for, read from its name.
//
// FSDP2 wraps its work in record_function ranges (torch/distributed/fsdp/_fully_shard/
// _fsdp_param_group.py and _fsdp_state.py, 2.11), the optimizers theirs (torch/optim/optimizer.py,
// profile_hook_step and zero_grad). A unit's name stands in parentheses; the root has none; a list of
// modules has all members' names, joined by ", ".
//
// Who: hooks.hpp and the timing side of a capture. Pure, deterministic, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/quantity.hpp"
#include "core/workload/unit.hpp"

namespace foreshard::traces {

enum class RangeKind : std::uint8_t {
  user,                ///< a range of the user's own, ProfilerStep#, or any other name that no rule knows
  zero_grad,           ///< Optimizer.zero_grad#…
  optimizer_step,      ///< Optimizer.step#…
  root_pre_forward,    ///< FSDP::root_pre_forward
  pre_forward,         ///< FSDP::pre_forward (u)
  post_forward,        ///< FSDP::post_forward (u)
  pre_backward,        ///< FSDP::pre_backward (u)
  accumulate,          ///< FSDP::post_backward_accumulate (u): the start of post-backward
  reshard,             ///< FSDP::post_backward_reshard (u)
  reduce,              ///< FSDP::post_backward_reduce (u)
  all_gather,          ///< FSDP::all_gather (u)
  copy_out,            ///< FSDP::all_gather_copy_out (u)
  root_post_backward,  ///< FSDP::root_post_backward_callback
  cast_outputs,        ///< FSDP::cast_forward_outputs
  known,               ///< FSDP:: and nccl: ranges that mark no place: prefetches, input casts, collectives
  unknown,             ///< an FSDP:: range that no rule knows
};

struct RangeMeaning {
  RangeKind kind = RangeKind::user;
  std::string_view unit = {};  ///< the text in parentheses; empty: the root, or a kind that has no unit
  /// N of " [pg=N]", which ranges of a unit with several parameter groups have (2.12 and later): the ranks that the
  /// group shards over, which two groups may have in common (FSDPParamGroup._with_fqn). 0 without.
  std::uint32_t group = 0;
};

/// Reads a range's name. The view points into `name`. Text after the closing parenthesis is ignored.
[[nodiscard]] RangeMeaning meaning_of(std::string_view name);

/// A unit's or range's name without the " [pg=N]" behind it, and N; 0 where there is none.
[[nodiscard]] std::pair<std::string_view, std::uint32_t> without_group(std::string_view name);

/// True for the kinds that name a unit.
[[nodiscard]] bool has_unit(RangeKind kind);

/// Looks units up by their annotation name.
class UnitNames {
 public:
  explicit UnitNames(std::span<const Unit> units);
  [[nodiscard]] std::optional<UnitId> find(std::string_view name) const;

 private:
  std::map<std::string, UnitId, std::less<>> ids_;
};

}  // namespace foreshard::traces
