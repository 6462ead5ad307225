#include "core/straggler/straggler_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/units.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/phase_words.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/straggler/rank_members.hpp"

namespace foreshard {
namespace {

double part(Nanoseconds of, Nanoseconds whole) {
  return whole.count > 0 ? 100 * of.ms() / whole.ms() : 0;
}

const RankTime& time_of(const Stragglers& found, std::uint32_t rank) {
  return *std::find_if(found.ranks.begin(), found.ranks.end(), [&](const RankTime& r) { return r.rank == rank; });
}

/// The others' waiting for any of `ranks`.
Nanoseconds delay_of(const Stragglers& found, const std::vector<RankRun>& ranks) {
  Nanoseconds out;
  for (const RankTime& time : found.ranks)
    if (has_rank(ranks, time.rank)) out += time.delay;
  return out;
}

/// The longest of its compute, its idle time and its communication in its worst phase, beside the others'.
std::string reason(const LateRank& late, const PhaseDelay& worst) {
  if (late.collectives)
    return fmt::format(
        "{} its GPU waits for {} a step behind collectives that all their ranks have begun, the others' "
        "for {}: a link of its groups is slow or shared",
        in_phase(late.phase), format_time(worst.communication), format_time(worst.communication_of_others));
  if (late.host)
    return fmt::format("{} its GPU is idle for {} a step, the others' for {}: likely behind its host",
                       in_phase(late.phase), format_time(worst.idle), format_time(worst.idle_of_others));
  return fmt::format("{} its GPU computes for {} a step, the others' for {}", in_phase(late.phase),
                     format_time(worst.compute), format_time(worst.compute_of_others));
}

/// ", mostly in backward": the phase that more than half of the others' waiting for it is in; empty: none is.
std::string mostly_in(const LateRank& late, const RankTime& time) {
  for (const PhaseDelay& phase : late.phases)
    if (phase.delay + phase.delay > time.delay) return ", mostly " + in_phase(phase.phase);
  return {};
}

/// "rank 1 is late"; of one that was given other work than others, that.
std::string whose_lateness(const Stragglers& found, const LateRank& late) {
  if (late.more_work) return fmt::format("rank {} has more work ({})", late.rank, rank_shapes_words(found.shapes));
  if (work_apart(found.shapes, late.rank) == WorkApart::less)
    return fmt::format("rank {} is late though it has less work ({})", late.rank, rank_shapes_words(found.shapes));
  return fmt::format("rank {} is late", late.rank);
}

/// Of Stragglers::under_profiler.
std::vector<std::string> profiler_sentences(const Stragglers& found) {
  const RankTime& time = time_of(found, *found.under_profiler);
  const std::string measured =
      found.measured_ms > 0
          ? fmt::format("without the profiler a step took {:.2f} ms, not {:.2f} ms: ", found.measured_ms,
                        time.step.ms())
          : std::string("steps without the profiler were not measured: ");
  return {fmt::format("no rank is called late: in the profiled steps the other ranks' GPUs wait for rank {} for {} a "
                      "step on average, {:.1f} % of {}, though it has less work ({})",
                      time.rank, format_time(time.delay), part(time.delay, time.step), format_time(time.step),
                      rank_shapes_words(found.shapes)),
          measured +
              "the profiler's time on its host may be all that makes it late, since its GPU's work hides least "
              "of that"};
}

std::string late_words(const Stragglers& found, const LateRank& late, const RankTime& time) {
  const std::string whose = whose_lateness(found, late);
  if (late.by_path)
    return fmt::format(
        "{7}{1}: the critical path over the ranks goes through it for {2} of a step (its own: "
        "compute {3}, behind collectives {4}, idle {5}); the others' GPUs wait for it for {6} on average, and else "
        "compute beside collectives that it has not begun",
        late.rank, mostly_in(late, time), format_time(late.path), format_time(time.compute),
        format_time(time.communication), format_time(time.idle), format_time(time.delay), whose);
  return fmt::format(
      "{5}{1}: the other ranks' GPUs wait for it for {2} a step on average, {3:.1f} % of rank "
      "{0}'s {4}",
      late.rank, mostly_in(late, time), format_time(time.delay), part(time.delay, time.step), format_time(time.step),
      whose);
}

/// Kernels of several names have one title: that others have none of it is not said.
std::string excess_words(const KernelExcess& kernel) {
  const std::string title = short_op_title(kernel.name);
  if (kernel.calls > kernel.calls_of_others)
    return fmt::format("there {:.3g} more calls of {} than the others' take {}", kernel.calls - kernel.calls_of_others,
                       title, format_time(kernel.time - kernel.time_of_others));
  return fmt::format("there {:.0f} calls of {} take {}; the others' {:.0f} calls {}", kernel.calls, title,
                     format_time(kernel.time), kernel.calls_of_others, format_time(kernel.time_of_others));
}

}  // namespace

std::string rank_shapes_words(const std::vector<RankShape>& shapes) {
  const auto fewer = [](const RankShape& a, const RankShape& b) { return tokens_of(a) < tokens_of(b); };
  const auto most = std::max_element(shapes.begin(), shapes.end(), fewer);
  const auto ranks_with = [&](const RankShape& shape) {
    std::vector<std::uint32_t> ranks;
    for (const RankShape& of : shapes)
      if (of.batch == shape.batch && of.seq == shape.seq) ranks.push_back(of.rank);
    return fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", rank_words(runs_of(ranks)),
                       ranks.size() == 1 ? "has" : "have");
  };
  const auto size = [](const RankShape& of) {
    return of.seq > 1 ? fmt::format("{} × {}", of.batch, of.seq) : std::to_string(of.batch);
  };
  std::vector<std::string> parts;
  for (const RankShape& of : shapes) {
    if (of.batch == most->batch && of.seq == most->seq) continue;
    std::string part = fmt::format("{} {}{}", ranks_with(of), size(of),
                                   !parts.empty()  ? ""
                                   : most->seq > 1 ? " tokens"
                                                   : " samples");
    if (std::find_if(parts.begin(), parts.end(),
                     [&](const std::string& one) { return one.starts_with(ranks_with(of)); }) == parts.end())
      parts.push_back(std::move(part));
  }
  if (parts.empty()) return {};
  return fmt::format("{} where {} {}", fmt::join(parts, ", "), ranks_with(*most), size(*most));
}

std::string ranks_words(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_words(runs_of(ranks)));
}

std::string keeps_up_words(std::uint32_t late, const std::vector<std::uint32_t>& with_more) {
  return with_more.empty() ? fmt::format("if rank {} keeps up", late)
                           : fmt::format("if {} had no more work", ranks_words(with_more));
}

std::string straggler_title(const Stragglers& found) {
  if (!found.late) return "Ranks";
  return fmt::format("Rank {} {}", found.late->rank, found.late->more_work ? "has more work" : "is late");
}

std::string own_kernels_words(const OwnKernels& own) {
  std::vector<std::string> parts;
  const auto add = [&](double count, Nanoseconds time, const char* what, const char* of) {
    if (count > 0) parts.push_back(fmt::format("{:.3g} {}{} ({:.2f} ms)", count, what, of, time.ms()));
  };
  const auto copies = [](double count) { return count == 1 ? " memset or copy" : " memsets and copies"; };
  add(own.extra, own.extra_time, "more", "");
  add(own.missing, own.missing_time, "fewer", "");
  add(own.extra_copies, own.extra_copies_time, "more", copies(own.extra_copies));
  add(own.missing_copies, own.missing_copies_time, "fewer", copies(own.missing_copies));
  return fmt::format("{} a step than the middle rank; most of that time: {}", fmt::join(parts, " and "),
                     short_op_title(own.name));
}

std::vector<std::string> straggler_sentences(const Stragglers& found) {
  std::vector<std::string> out;
  if (found.under_profiler) {
    out = profiler_sentences(found);
  } else if (!found.late) {
    Nanoseconds step;
    for (const RankTime& rank : found.ranks) step = std::max(step, rank.step);
    const RankTime& longest = *std::max_element(found.ranks.begin(), found.ranks.end(),
                                                [](const RankTime& a, const RankTime& b) { return a.delay < b.delay; });
    const Nanoseconds delay = found.equally_late.empty() ? longest.delay : delay_of(found, found.equally_late);
    const std::string ranks =
        found.equally_late.empty() ? fmt::format("rank {}", longest.rank) : "ranks " + rank_words(found.equally_late);
    const bool waits = delay >= step.scaled(kLateShareOfStep);
    const bool several = waits || !found.equally_late.empty();
    const std::string whom = waits ? fmt::format(", longest for {} ({})", ranks, format_time(delay))
                                   : ", and the critical path over them goes through " + ranks;
    out.push_back(
        fmt::format("{}: the {} ranks' GPUs wait for one another for {} a step on average, {:.1f} % of the step{}",
                    several ? "no rank alone is late" : "no rank is late", found.counted, format_time(found.waiting),
                    part(found.waiting, step), several ? whom : std::string()));
    if (std::string shapes = rank_shapes_words(found.shapes); !shapes.empty()) out.push_back(std::move(shapes));
  } else {
    const LateRank& late = *found.late;
    const RankTime& time = time_of(found, late.rank);
    const PhaseDelay& worst = *std::find_if(late.phases.begin(), late.phases.end(),
                                            [&](const PhaseDelay& p) { return p.phase == late.phase; });
    out.push_back(late_words(found, late, time));
    out.push_back(reason(late, worst));
    if (late.own) out.push_back("it runs other kernels: " + own_kernels_words(*late.own));
    for (const KernelExcess& kernel : late.kernels) out.push_back(excess_words(kernel));
  }
  if (found.counted < found.world)
    out.push_back(
        found.planned
            ? fmt::format("of {} ranks {} are shown, each of a group that nothing tells apart; means are over the {} "
                          "ranks of these groups",
                          found.world, found.ranks.size(), found.counted)
            : fmt::format("{} of {} ranks are recorded: what is waited for may be one that is not", found.counted,
                          found.world));
  else if (found.ranks.size() < found.world)
    out.push_back(
        fmt::format("of {} ranks {} are shown, one of each group that nothing tells apart; means are over all",
                    found.world, found.ranks.size()));
  return out;
}

}  // namespace foreshard
