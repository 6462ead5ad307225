// How the steps of a host program repeat: which of its ops belong to which step, and from which step on all are alike.
//
// A job that stands at one point of a step as it stood there a step before goes on as it did then, shifted in time, as
// long as its program asks for the same: the rest need not be played (sim/ranks/job.cpp). The points are cuts: ops of
// the compute stream in the first part of each step, at whose ends ranks look at themselves (Rank::Cut). Exact;
// constant once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/ranks/host_schedule.hpp"

namespace foreshard::sim {

class StepPeriod {
 public:
  /// Of a step. A host is a launch queue ahead soon after a step has begun, a thousand ops of some twenty thousand, and
  /// from then on steps are alike; a cut at which a collective begins or ends on some ranks only says nothing.
  static constexpr std::size_t kCuts = 16;

  /// Both must outlive it.
  StepPeriod(const HostProgram& program, const HostSchedule& schedule);

  /// Whether what is behind cut `from` (of cuts()), up to the end of step `last`, asks in each step for the same as in
  /// the next: ops of equal work and waits on the same streams and communicators, with the same host work and waits
  /// between. False where there is no step behind `last`.
  [[nodiscard]] bool alike(std::size_t from, std::size_t last) const;
  /// The first op of the step from which on its ops are as those of the next one; none: it is the last step.
  [[nodiscard]] std::optional<OpId> first_alike(std::size_t step) const {
    return step < tails_.size() ? std::optional(tails_[step].op) : std::nullopt;
  }

  struct Cut {
    OpId op;
    std::size_t acts = 0;  ///< of the schedule up to the one that issues it
  };
  /// kCuts of each step, in order.
  [[nodiscard]] const std::vector<Cut>& cuts() const { return cuts_; }

 private:
  /// What of a step is as in the next one: all from an op and an act on.
  struct Tail {
    OpId op;
    std::size_t act = 0;
    bool whole = false;  ///< it is the whole step, and the next one has no more
  };
  void find_cuts();
  [[nodiscard]] Tail tail(std::size_t step) const;
  [[nodiscard]] bool same_op(std::uint32_t op, std::uint32_t ops) const;
  [[nodiscard]] bool same_act(std::size_t act, std::size_t shift, std::uint32_t ops) const;
  /// Of a step.
  [[nodiscard]] std::uint32_t first_op(std::size_t step) const {
    return step == 0 ? 0 : program_.step_ends[step - 1].value + 1;
  }
  [[nodiscard]] std::size_t first_act(std::size_t step) const {
    return step == 0 ? 0 : act_of_[program_.step_ends[step - 1].value] + 1;
  }

  const HostProgram& program_;
  const HostSchedule& schedule_;
  std::vector<std::size_t> act_of_;  // by op: the act that issues it
  std::vector<Cut> cuts_;
  std::vector<Tail> tails_;  // by step, but for the last
};

}  // namespace foreshard::sim
