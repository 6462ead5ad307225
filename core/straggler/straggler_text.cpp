#include "core/straggler/straggler_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.hpp"
#include "core/run/allocation_names.hpp"

namespace foreshard {
namespace {

double part(Nanoseconds of, Nanoseconds whole) {
  return whole.count > 0 ? 100 * of.ms() / whole.ms() : 0;
}

std::string phase_name(const std::string& phase) {
  return phase.empty() ? "between phases" : "in " + phase;
}

const RankTime& time_of(const Stragglers& found, std::uint32_t rank) {
  return *std::find_if(found.ranks.begin(), found.ranks.end(), [&](const RankTime& r) { return r.rank == rank; });
}

/// The longer of its compute and its idle time in its worst phase, beside the others'.
std::string reason(const LateRank& late, const PhaseDelay& worst) {
  if (late.host)
    return fmt::format("{} its GPU is idle for {} a step, the others' for {}: likely behind its host",
                       phase_name(late.phase), format_time(worst.idle), format_time(worst.idle_of_others));
  return fmt::format("{} its GPU computes for {} a step, the others' for {}", phase_name(late.phase),
                     format_time(worst.compute), format_time(worst.compute_of_others));
}

}  // namespace

std::vector<std::string> straggler_sentences(const Stragglers& found) {
  std::vector<std::string> out;
  if (!found.late) {
    Nanoseconds step;
    for (const RankTime& rank : found.ranks) step = std::max(step, rank.step);
    const RankTime& longest = *std::max_element(found.ranks.begin(), found.ranks.end(),
                                                [](const RankTime& a, const RankTime& b) { return a.delay < b.delay; });
    const bool several = longest.delay >= step.scaled(kLateShareOfStep);
    out.push_back(fmt::format(
        "{}: the {} ranks' GPUs wait for one another for {} a step on average, {:.1f} % of it{}",
        several ? "no rank alone is late" : "no rank is late", found.ranks.size(), format_time(found.waiting),
        part(found.waiting, step),
        several ? fmt::format(", longest for rank {} ({})", longest.rank, format_time(longest.delay)) : std::string()));
  } else {
    const LateRank& late = *found.late;
    const RankTime& time = time_of(found, late.rank);
    const PhaseDelay& worst = *std::find_if(late.phases.begin(), late.phases.end(),
                                            [&](const PhaseDelay& p) { return p.phase == late.phase; });
    out.push_back(fmt::format(
        "rank {} is late, mostly {}: the other ranks' GPUs wait for it for {} a step, {:.1f} % of {}", late.rank,
        phase_name(late.phase), format_time(time.delay), part(time.delay, time.step), format_time(time.step)));
    out.push_back(reason(late, worst));
    for (const KernelExcess& kernel : late.kernels)
      out.push_back(fmt::format(
          "there {:.0f} calls of {} take {}; {}", kernel.calls, short_op_title(kernel.name), format_time(kernel.time),
          kernel.calls_of_others > 0
              ? fmt::format("the others' {:.0f} calls {}", kernel.calls_of_others, format_time(kernel.time_of_others))
              : "the others have none"));
  }
  if (found.ranks.size() < found.world)
    out.push_back(found.planned ? fmt::format("of {} ranks {} are shown, one of each group that nothing tells apart; "
                                              "means count each of them once",
                                              found.world, found.ranks.size())
                                : fmt::format("{} of {} ranks are recorded: what is waited for may be one that is not",
                                              found.ranks.size(), found.world));
  return out;
}

}  // namespace foreshard
