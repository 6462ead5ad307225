// A step's time by phase: what the compute stream computed, and what it waited for. Pure; deterministic.
//
// Who: cli's plan, `explain --time` and `compare`, which mean these by their words. The rows add up to the step.
#pragma once

#include <string>
#include <vector>

#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard {

struct PhaseTime {
  std::string phase;  ///< "forward", …, of the call that issued the op, or the op that ended the wait; of the host's
                      ///< lateness what it was at then; empty: between phases
  Nanoseconds compute;
  Nanoseconds contention;             ///< of `compute`: kernels slower than without a collective beside them
  Nanoseconds exposed_communication;  ///< a collective runs, and nothing computes
  Nanoseconds host;                   ///< neither, and the host was late: it had not issued the next op
  Nanoseconds allocator;              ///< of `host`: the caching allocator held it up
  Nanoseconds other;                  ///< neither: gaps between kernels, latencies, copies

  [[nodiscard]] Nanoseconds sum() const { return compute + exposed_communication + host + other; }
};

/// By phase, in the order of the run's; phases without time are left out. `explanation`: of `run`.
[[nodiscard]] std::vector<PhaseTime> phase_times(const Run& run, const TimeExplanation& explanation);

/// How long nothing runs because an optimizer on the CPU does (CPUOffloadPolicy): of the phases' `host` the
/// optimizer's. Zero where none runs there.
[[nodiscard]] Nanoseconds cpu_optimizer_time(const Run& run, const TimeExplanation& explanation);

/// Their sum, without a phase.
[[nodiscard]] PhaseTime total(const std::vector<PhaseTime>& rows);

}  // namespace foreshard
