// How far the measured step of a plan is to be expected from the predicted one: an interval that nine of ten measured
// steps lie in.
//
// Who: predict(), whose parts add what a plan rests on; accuracy, which holds the intervals against measured steps.
// Pure.
//
// Each thing that a plan rests on (Basis) was off by so much, in plans of runs that say it: /prediction of the machine
// profile has nine tenths of those errors, `foreshard accuracy` prints them. The host's speed counts by what it moves:
// the step is simulated for a host that is slower and one that is faster by what hosts differ, so that it widens
// host-bound steps on both sides, those near to it on one, and others not at all. The parts are independent causes:
// their squares add, each side for itself, in logarithms.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/enum_names.hpp"

namespace foreshard::sim {

/// The share of measured steps that an interval is to hold.
inline constexpr double kIntervalShare = 0.9;

/// What a plan's step can rest on.
enum class Basis : std::uint8_t {
  recorded = 0,       ///< recorded kernels, collectives of measured kinds
  adapted = 1,        ///< recorded kernels, rearranged for other checkpointing, accumulation or units
  modelled = 2,       ///< kernels priced by a machine profile that was measured for them
  recorded_host = 3,  ///< the speed of the recorded process's host, in another process
  modelled_host = 4,  ///< the speed of a host that nothing says anything of
  elsewhere = 5,      ///< a machine, a scale or kernels that nothing was measured on
  collectives = 6,    ///< collectives whose prices rest on no measurement of these ranks or links
  anchor = 7,         ///< a factor between simulated and measured that no reference run of one speed needs
  steps = 8,          ///< recorded steps that differ: kernels scaled from another length, a sample of steps
  retries = 9,        ///< what allocation retries in the step take
};

struct RestsOn {
  Basis basis = Basis::recorded;
  double below = 0;  ///< natural logarithm of predicted over the lower end, were it alone
  double above = 0;  ///< … of the upper end over predicted
};

struct Interval {
  double low_ms = 0;
  double high_ms = 0;
  double moved_below = 0;  ///< what share of a change of the host's speed reaches the step, of a faster one; 0 to 1
  double moved_above = 0;  ///< … of a slower one
  std::vector<RestsOn> rests_on;  ///< in the order in which they were found

  /// The larger side, relative to the predicted step.
  [[nodiscard]] double half_width(double step_ms) const;
};

/// "kernels and collectives of the recording"
[[nodiscard]] std::string_view words_of(Basis basis);

/// Sets both ends for a step of `step_ms`, from `rests_on`.
void close_interval(double step_ms, Interval& interval);

/// Half the width of the difference between two plans of one source, relative: what both rest on moves both. `gpu`: of
/// steps that the GPU sets; `host`: of the host's speed from process to process; `moved`: what share of a change of the
/// host's speed reaches the step, 0 to 1.
[[nodiscard]] double difference_width(double gpu, double host, double moved);

/// Nine of ten measured differences of two plans of one source, of widths `a` and `b` (Prediction::difference), lie
/// within so much of the planned one, as a share of the step that it is counted from.
[[nodiscard]] inline double difference_within(double a, double b) {
  return std::max(a, b);
}

}  // namespace foreshard::sim

template <>
struct foreshard::EnumNames<foreshard::sim::Basis> {
  static constexpr std::array<std::string_view, 10> kNames{"recorded",      "adapted",   "modelled",    "recorded_host",
                                                           "modelled_host", "elsewhere", "collectives", "anchor",
                                                           "steps",         "retries"};
};
static_assert(foreshard::names_end_with(foreshard::sim::Basis::retries));
