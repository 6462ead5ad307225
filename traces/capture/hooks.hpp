// Where FSDP2 and the optimizer act in a recorded step: the hook places, found from annotation ranges
// (fsdp2 semantics 13.1). One rule for both sides of a capture, so that the memory snapshot and the
// profiler trace, which record different steps, are cut at the same places.
//
// Who: traces/capture (memory side and time side). Pure; the same ranges give the same places.
//
// The rule
// - zero_grad is the start of Optimizer.zero_grad#; microbatch_begin its end, for later microbatches the
//   end of the previous backward. With no such range a step opens at its first forward, where zero_grad
//   is put as well; a zero_grad between forward and backward stays where it is.
// - forward_begin/_end and backward_begin/_end are the user's own ranges where there are any: the
//   outermost range that holds the root's pre-forward and nothing of backward or optimizer; the outermost
//   that holds the root's post-backward callback and no forward. Else: the start of
//   FSDP::root_pre_forward and the end of the last FSDP::post_forward; the first FSDP::pre_backward (or
//   post-backward) and the end of FSDP::root_post_backward_callback. microbatch_end follows backward_end.
// - pre_forward, post_forward, pre_backward, post_backward (FSDP::post_backward_accumulate) and
//   backward_final (FSDP::root_post_backward_callback) are starts. Post-backward ranges inside the final
//   callback are no hooks: FSDP visits again what it has already done.
// - outputs_cast is the end of the root's FSDP::cast_forward_outputs: the one that follows its post-forward.
// - A root without parameters has no pre- and post-forward ranges (they are FSDPParamGroup's): its pre_forward is the
//   start of FSDP::root_pre_forward, its post_forward the end of the forward's last FSDP range.
// - optimizer_begin and optimizer_step are the start of Optimizer.step#, optimizer_end its end; several
//   optimizers in a row count as one.
// - A step begins with the outermost range that holds its zero_grad and nothing else of the step, and
//   ends where the next begins; the last ends with the outermost range that holds its optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"
#include "core/workload/unit.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// One annotation. `end` of a range that was never closed: any time after the recording's last entry.
struct Range {
  std::string_view name;
  Nanoseconds start;
  Nanoseconds end;
};

struct HookPlace {
  Hook hook = Hook::zero_grad;
  UnitId unit;  ///< of pre/post-forward and pre/post-backward; else invalid
  Nanoseconds time;
  bool at_end = false;  ///< taken from a range's end: entries of the same time come before it; else after it
  std::int32_t step = 0;
  std::int32_t microbatch = 0;
};

struct StepPlaces {
  std::int32_t index = 0;
  Nanoseconds begin;
  Nanoseconds end;        ///< begin of the next step; of the last step: end of its optimizer's range
  bool complete = false;  ///< seen from its begin to its optimizer, with forward and backward between
  bool cut = false;       ///< the recording began inside it
  bool broken = false;    ///< the recording ends in its forward, backward or optimizer
  std::size_t first = 0;  ///< its places are places[first, first + count)
  std::size_t count = 0;
};

struct Hooks {
  std::vector<HookPlace> places;  ///< in host order; times never fall
  std::vector<StepPlaces> steps;  ///< in order, unfinished ones at either end of the recording included
  bool began_inside = false;      ///< the recording's first step was cut, and left out: set-up is not in it
  std::vector<ImportStat> stats;  ///< unknown FSDP:: ranges, steps without an optimizer range, …
};

/// Finds the hook places. `ranges` must be in the order of their starts, outer ones before inner ones of
/// the same start. Ranges of all threads go in together: the autograd thread never runs concurrently with the main
/// thread's own FSDP code. Fails with ErrorKind::mismatch when a range names a unit that `units` lacks.
[[nodiscard]] Result<Hooks> find_hooks(std::span<const Range> ranges, std::span<const Unit> units);

}  // namespace foreshard::traces
