// A step's number in words: the same in every verb. Pure.
//
// A step's number is its place in its recording, from 0, everywhere. An import may have two recordings, a snapshot and
// a trace, of different steps; and torch.profiler counts its own, from before its schedule's wait and warm-up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// Of all steps of a run, which must outlive it: it is looked through once.
class StepTitles {
 public:
  explicit StepTitles(const Run& run);

  /// What the recording itself calls the step, "ProfilerStep#3" of torch.profiler's schedule: the range of that name
  /// that the step begins in; empty without one.
  [[nodiscard]] std::string recorded_name(const StepRecord& step) const;

  /// "step 1"; with "of the trace" where the run has steps of two recordings, and the recording's own name where it has
  /// one: "step 0 of the trace (ProfilerStep#3)".
  [[nodiscard]] std::string title(Recording recording, std::int32_t index) const;

 private:
  struct Range {
    Nanoseconds start;
    Nanoseconds end;
    LabelId label;
  };
  const Run& run_;
  std::vector<Range> of_snapshot_;  // by start
  std::vector<Range> of_others_;
  std::map<std::pair<Recording, std::int32_t>, const StepRecord*> steps_;  // the first of each number
  bool several_ = false;                                                   // recordings with steps
};

/// StepTitles::title() of one step.
[[nodiscard]] std::string step_title(const Run& run, Recording recording, std::int32_t index);

}  // namespace foreshard
