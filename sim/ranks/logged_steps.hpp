// A program's log in steps, so that the steps of several programs can be put together to one.
//
// Who: sim/ranks/trials.hpp, whose ranks draw another program for each step; sim/predict logs them. A step's calls are
// those behind the last op of the compute stream in the step before, up to its own; what is in front of the first step
// is its part. Constant once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/device_log.hpp"
#include "sim/ranks/host_program.hpp"

namespace foreshard::sim {

class StepLog {
 public:
  /// `step_ends`: as host_program()'s.
  StepLog(DeviceLog log, const std::vector<OpId>& step_ends);

  [[nodiscard]] std::size_t steps() const { return steps_.size() - 1; }
  /// Whether steps of the two can follow one another: they make as many streams and events, and the same collectives
  /// in the same order, in each of their steps.
  [[nodiscard]] bool same_form(const StepLog& other) const;

 private:
  friend HostProgram program_of_steps(const std::vector<const StepLog*>& by_step);
  /// What comes before a step.
  struct Step {
    std::size_t calls = 0;
    std::size_t collectives = 0;
    std::size_t events = 0;
    std::size_t streams = 0;
  };
  DeviceLog log_;
  std::vector<Step> steps_;  // one more than there are, for the end
};

/// Of each step the log that it is of. Aborts where these are not of one form, or have other numbers of steps.
[[nodiscard]] HostProgram program_of_steps(const std::vector<const StepLog*>& by_step);

}  // namespace foreshard::sim
