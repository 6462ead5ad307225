// Which steps of two runs are set side by side where a run's steps differ: of one shape, if both have one.
#pragma once

#include "cli/reports/compare_report.hpp"
#include "cli/verbs/compare_pair.hpp"
#include "core/run/run.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard::cli {

/// Steps by index. None: the run's own (timed_step(), memory_step()).
struct LikeSteps {
  WantedStep time_a, time_b;
  WantedStep memory_a, memory_b;
};

/// Those that were asked for; else, where a run's steps differ, of the steps whose time is known the last ones of one
/// shape, from the run's own step backwards, and each run's own where no two are alike; of memory likewise. A
/// profiler's first step, which begins with an idle GPU, is laid beside another first one alone, where no others are
/// alike.
[[nodiscard]] LikeSteps like_steps(const Run& a, const Run& b, const ComparedSteps& asked);

/// What the compared steps and both runs' step times are of.
[[nodiscard]] ComparedWork compared_work(const Run& a, const Run& b, const ComparedSteps& asked,
                                         const LikeSteps& steps);

}  // namespace foreshard::cli
