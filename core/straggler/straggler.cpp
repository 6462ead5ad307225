#include "core/straggler/straggler.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/run/rank_shapes.hpp"
#include "core/straggler/compared_steps.hpp"
#include "core/straggler/first_cause.hpp"
#include "core/straggler/quantile.hpp"
#include "core/straggler/rank_path.hpp"
#include "core/straggler/rank_timeline.hpp"

namespace foreshard {
namespace {

using straggler_detail::lower_median;
using straggler_detail::Span;
using straggler_detail::SpanKind;
using straggler_detail::Weighted;

constexpr std::size_t kKernels = 3;
constexpr double kPhaseShare = 0.001;  // of the step: a phase in which nothing takes as long is left out
constexpr double kKernelShare = 0.1;   // of the largest excess; less is not worth a line

struct Rank {
  std::uint32_t rank = 0;
  std::vector<Span> spans;       // of the steps that are looked at
  std::uint32_t stands_for = 1;  // equal ranks, itself among them
};

/// Where of a group of equal ranks only the first has ops, it stands for all of them. Groups of more ranks than the job
/// has, as a damaged store may name, are passed over.
void find_stand_ins(const std::vector<RankMembers>& groups, std::uint32_t world, std::vector<Rank>& ranks) {
  std::uint64_t all = 0;
  for (const RankMembers& group : groups)
    for (const RankRun& members : group.members) all += members.count;
  if (all > world) return;
  const auto find = [&](std::uint32_t number) {
    return std::lower_bound(ranks.begin(), ranks.end(), number,
                            [](const Rank& rank, std::uint32_t of) { return rank.rank < of; });
  };
  const auto with_ops = [&](const RankRun& members) {
    std::uint32_t count = 0;
    for (auto at = find(members.first); at != ranks.end(); ++at) {
      if ((at->rank - members.first) / members.stride >= members.count) break;
      if ((at->rank - members.first) % members.stride == 0) ++count;
    }
    return count;
  };
  for (const RankMembers& group : groups) {
    const auto first = find(group.first);
    if (first == ranks.end() || first->rank != group.first) continue;
    std::uint32_t with = 0;
    for (const RankRun& members : group.members) with += with_ops(members);
    if (with == 1) first->stands_for = std::max(1U, rank_count(group.members));
  }
}

std::vector<Rank> ranks_of(const Run& run, const std::set<std::int32_t>& steps,
                           const std::vector<RankMembers>& groups) {
  std::vector<Rank> out;
  for (straggler_detail::RankSpans& rank : straggler_detail::rank_spans(run)) {
    std::erase_if(rank.spans, [&](const Span& span) { return !steps.contains(span.step); });
    out.push_back({rank.rank, std::move(rank.spans), 1});
  }
  std::sort(out.begin(), out.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  find_stand_ins(groups, run.settings.world(), out);
  return out;
}

std::uint32_t counted(const std::vector<Rank>& ranks) {
  std::uint32_t sum = 0;
  for (const Rank& rank : ranks) sum += rank.stands_for;
  return sum;
}

/// How many of the ranks that `rank` stands for are others than `but`.
std::uint64_t others_in(const Rank& rank, std::uint32_t but) {
  return rank.stands_for - (rank.rank == but ? 1U : 0U);
}

/// Sums over spans, and their mean a step.
class Totals {
 public:
  Totals(const std::vector<Rank>& ranks, std::size_t steps) : ranks_(ranks), steps_(static_cast<std::int64_t>(steps)) {}

  template <class Wanted>
  [[nodiscard]] Nanoseconds of(const Rank& rank, Wanted wanted) const {
    Nanoseconds sum;
    for (const Span& span : rank.spans)
      if (wanted(span)) sum += span.time;
    return {sum.count / steps_};
  }
  template <class Wanted>
  [[nodiscard]] Nanoseconds median_of_others(std::uint32_t but, Wanted wanted) const {
    std::vector<Weighted<Nanoseconds>> values;
    for (const Rank& rank : ranks_)
      if (const std::uint64_t count = others_in(rank, but); count > 0) values.push_back({of(rank, wanted), count});
    return lower_median(std::move(values));
  }
  /// The other ranks' waiting for `rank`, in collectives of `phase` or of all: their mean.
  template <class Wanted>
  [[nodiscard]] Nanoseconds delay(std::uint32_t rank, Wanted wanted) const {
    Nanoseconds sum;
    for (const Rank& other : ranks_)
      sum.count += of(other, [&](const Span& span) { return span.for_rank == rank && wanted(span); }).count *
                   static_cast<std::int64_t>(others_in(other, rank));
    return {sum.count / static_cast<std::int64_t>(counted(ranks_) - 1)};
  }

 private:
  const std::vector<Rank>& ranks_;
  std::int64_t steps_;
};

auto of_kind(SpanKind kind) {
  return [kind](const Span& span) { return span.kind == kind; };
}

RankTime time_of(const Rank& rank, const Totals& totals) {
  RankTime time{rank.rank,
                rank.stands_for,
                {},
                totals.of(rank, of_kind(SpanKind::compute)),
                totals.of(rank, of_kind(SpanKind::waiting)),
                totals.of(rank, of_kind(SpanKind::communication)),
                totals.of(rank, of_kind(SpanKind::idle)),
                totals.delay(rank.rank, [](const Span&) { return true; })};
  time.step = time.compute + time.waiting + time.communication + time.idle;
  return time;
}

/// The phases of `rank` in the order of their first spans.
std::vector<PhaseDelay> phases_of(const Run& run, const Rank& rank, const Totals& totals) {
  std::vector<LabelId> labels;
  for (const Span& span : rank.spans)
    if (std::find(labels.begin(), labels.end(), span.phase) == labels.end()) labels.push_back(span.phase);
  std::vector<PhaseDelay> out;
  for (const LabelId label : labels) {
    const auto within = [label](SpanKind kind) {
      return [label, kind](const Span& span) { return span.kind == kind && span.phase == label; };
    };
    const auto compute = within(SpanKind::compute), idle = within(SpanKind::idle);
    const auto communication = within(SpanKind::communication);
    out.push_back({run.labels.text(label), totals.of(rank, compute), totals.median_of_others(rank.rank, compute),
                   totals.of(rank, idle), totals.median_of_others(rank.rank, idle), totals.of(rank, communication),
                   totals.median_of_others(rank.rank, communication),
                   totals.delay(rank.rank, [label](const Span& span) { return span.phase == label; })});
  }
  std::erase_if(out,
                [least = totals.of(rank, [](const Span&) { return true; }).scaled(kPhaseShare)](const PhaseDelay& p) {
                  return std::max({p.compute, p.compute_of_others, p.idle, p.idle_of_others, p.communication,
                                   p.communication_of_others, p.delay}) < least;
                });
  return out;
}

struct KernelTotal {
  Nanoseconds time;
  std::int64_t calls = 0;
};
using KernelTotals = std::map<LabelId, KernelTotal>;

KernelTotals kernels_of(const Rank& rank, LabelId phase) {
  KernelTotals out;
  for (const Span& span : rank.spans) {
    if (span.kind != SpanKind::compute || span.phase != phase) continue;
    out[span.label].time += span.time;
    ++out[span.label].calls;
  }
  return out;
}

/// Kernels of the phase that take longer on `late` than their median over the other ranks.
std::vector<KernelExcess> slower_kernels(const Run& run, const std::vector<Rank>& ranks, const Rank& late,
                                         LabelId phase, std::size_t steps) {
  std::vector<Weighted<KernelTotals>> others;
  for (const Rank& rank : ranks)
    if (rank.rank != late.rank) others.push_back({kernels_of(rank, phase), rank.stands_for});
  const auto count = static_cast<std::int64_t>(steps);
  std::vector<KernelExcess> out;
  for (const auto& [label, total] : kernels_of(late, phase)) {
    std::vector<Weighted<Nanoseconds>> times, calls;
    for (auto& [other, count_as] : others) {
      times.push_back({other[label].time, count_as});
      calls.push_back({{other[label].calls}, count_as});
    }
    const Nanoseconds usual = lower_median(std::move(times));
    if (total.time <= usual) continue;
    out.push_back({run.labels.text(label),
                   {total.time.count / count},
                   {usual.count / count},
                   static_cast<double>(total.calls) / static_cast<double>(steps),
                   static_cast<double>(lower_median(std::move(calls)).count) / static_cast<double>(steps)});
  }
  std::stable_sort(out.begin(), out.end(), [](const KernelExcess& a, const KernelExcess& b) {
    return a.time - a.time_of_others > b.time - b.time_of_others;
  });
  if (out.size() > kKernels) out.resize(kKernels);
  const auto excess = [](const KernelExcess& kernel) { return kernel.time - kernel.time_of_others; };
  std::erase_if(out, [&, most = out.empty() ? Nanoseconds() : excess(out.front())](const KernelExcess& kernel) {
    return excess(kernel) < most.scaled(kKernelShare);
  });
  return out;
}

std::optional<OwnKernels> own_kernels(const Run& run, const std::set<std::int32_t>& steps, std::uint32_t rank) {
  const straggler_detail::KernelKinds kinds(run, steps);
  const auto at = std::find(kinds.ranks().begin(), kinds.ranks().end(), rank);
  return at == kinds.ranks().end() ? std::nullopt : kinds.own(static_cast<std::size_t>(at - kinds.ranks().begin()));
}

/// The phase's label; invalid between phases.
LabelId label_of(const Run& run, const Rank& rank, const std::string& phase) {
  for (const Span& span : rank.spans)
    if (run.labels.text(span.phase) == phase) return span.phase;
  return {};
}

/// The rank that the others wait for most, where that is much (kLateShareOfStep, kLateShareOfWaiting).
const RankTime* most_waited_for(const Stragglers& found) {
  const auto most = std::max_element(found.ranks.begin(), found.ranks.end(),
                                     [](const RankTime& a, const RankTime& b) { return a.delay < b.delay; });
  Nanoseconds all, step;
  for (const RankTime& rank : found.ranks) {
    all += rank.delay;
    step = std::max(step, rank.step);
  }
  const bool much = most->delay > step.scaled(kLateShareOfStep) && most->delay >= all.scaled(kLateShareOfWaiting);
  return much ? &*most : nullptr;
}

/// Of the critical path over the ranks, in the steps that are looked at, by rank; a step on average.
std::map<std::uint32_t, Nanoseconds> path_parts(const Run& run, const std::set<std::int32_t>& steps) {
  std::map<std::uint32_t, Nanoseconds> out;
  std::int64_t paths = 0;
  for (const RankPath& path : rank_paths(run)) {
    if (!steps.contains(path.step)) continue;
    ++paths;
    for (const PathVisit& visit : path.visits) out[visit.rank] += visit.end - visit.begin;
  }
  for (auto& [rank, part] : out) part.count /= paths;
  return out;
}

/// The rank that at least half of the critical path goes through, where its own time is above the others' by much.
const RankTime* critical_one(const Stragglers& found, const std::map<std::uint32_t, Nanoseconds>& parts) {
  const auto own = [](const RankTime& rank) { return rank.compute + rank.idle; };
  Nanoseconds all;
  for (const auto& [rank, part] : parts) all += part;
  for (const RankTime& rank : found.ranks) {
    const auto part = parts.find(rank.rank);
    if (part == parts.end() || part->second < all.scaled(kLateShareOfWaiting)) continue;
    std::vector<Weighted<Nanoseconds>> others;
    for (const RankTime& other : found.ranks)
      if (other.rank != rank.rank) others.push_back({own(other), other.stands_for});
    const Nanoseconds excess = own(rank) - lower_median(std::move(others));
    if (excess > rank.step.scaled(kLateShareOfStep) && excess > rank.communication) return &rank;
  }
  return nullptr;
}

/// Of `slower` the rank that most of the critical path goes through; of equal parts the lowest.
const RankTime* most_critical(const Stragglers& found, const std::map<std::uint32_t, Nanoseconds>& parts,
                              const std::vector<RankRun>& slower) {
  const RankTime* out = nullptr;
  Nanoseconds most;
  for (const RankTime& rank : found.ranks) {
    if (!has_rank(slower, rank.rank)) continue;
    const auto part = parts.find(rank.rank);
    const Nanoseconds time = part == parts.end() ? Nanoseconds{} : part->second;
    if (out != nullptr && time <= most) continue;
    out = &rank;
    most = time;
  }
  return out;
}

/// Whether of two of a plan's ranks, the second of which stands for several, each is waited for alike.
bool waited_for_alike(const RankTime& one, const RankTime& several) {
  const auto each = [](const RankTime& rank) { return static_cast<double>(rank.delay.count) / rank.stands_for; };
  return several.stands_for > 1 && std::abs(each(one) - each(several)) <= kAsEachOf * each(several);
}

/// The ranks that spend their time as `late` does, itself among them: two equally slow ones, or all but a fast one. Of
/// a group of equal ranks also those that are waited for as each of it.
std::vector<RankRun> equals_of(const Stragglers& found, const RankTime& late, const std::vector<RankMembers>& groups) {
  std::vector<std::uint32_t> out;
  for (const RankTime& other : found.ranks) {
    const bool as_late = other.compute == late.compute && other.waiting == late.waiting &&
                         other.communication == late.communication && other.idle == late.idle;
    if (!as_late && !waited_for_alike(other, late)) continue;
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const RankMembers& of) { return of.first == other.rank; });
    if (other.stands_for == 1 || group == groups.end()) {
      out.push_back(other.rank);
      continue;
    }
    for (const RankRun& run : group->members)
      for (std::uint32_t i = 0; i < run.count; ++i) out.push_back(run.first + i * run.stride);
  }
  std::sort(out.begin(), out.end());
  return runs_of(out);
}

/// Whether ranks with as much work as `rank` wait for less than a late one makes others wait.
bool equals_keep_up(const Stragglers& found, std::uint32_t rank) {
  const auto tokens = [&](std::uint32_t of) {
    const auto shape =
        std::find_if(found.shapes.begin(), found.shapes.end(), [&](const RankShape& one) { return one.rank == of; });
    return shape == found.shapes.end() ? 0 : tokens_of(*shape);
  };
  return std::all_of(found.ranks.begin(), found.ranks.end(), [&](const RankTime& time) {
    return time.rank == rank || tokens(time.rank) != tokens(rank) || time.waiting < time.step.scaled(kLateShareOfStep);
  });
}

}  // namespace

std::optional<Stragglers> find_stragglers(const Run& run) {
  return find_stragglers(run, rank_members(run), straggler_detail::compared_steps(run), planned_slower_ranks(run));
}

std::optional<Stragglers> find_stragglers(const Run& run, std::int32_t step) {
  return find_stragglers(run, rank_members(run), straggler_detail::compared_steps(run, step),
                         planned_slower_ranks(run));
}

std::optional<Stragglers> find_stragglers(const Run& run, const std::vector<RankMembers>& groups,
                                          const std::set<std::int32_t>& steps, const std::vector<RankRun>& slower) {
  if (steps.empty() || run.ranks.size() < 2) return std::nullopt;
  const std::vector<Rank> ranks = ranks_of(run, steps, groups);
  if (ranks.size() < 2) return std::nullopt;
  const Totals totals(ranks, steps.size());
  Stragglers found;
  found.world = run.settings.world();
  found.shapes = rank_shapes(run);
  found.planned = run.info.kind == RunKind::planned;
  found.steps = static_cast<std::uint32_t>(steps.size());
  found.counted = counted(ranks);
  for (const Rank& rank : ranks) {
    found.ranks.push_back(time_of(rank, totals));
    found.waiting.count += found.ranks.back().waiting.count * static_cast<std::int64_t>(rank.stands_for);
  }
  found.waiting.count /= static_cast<std::int64_t>(found.counted);
  const auto parts = path_parts(run, steps);
  const RankTime* late = most_waited_for(found);
  if (late != nullptr && !slower.empty() && !has_rank(slower, late->rank)) late = nullptr;
  const bool by_path = late == nullptr;
  if (by_path) late = slower.empty() ? critical_one(found, parts) : most_critical(found, parts, slower);
  if (late == nullptr) return found;
  if (auto equals = equals_of(found, *late, groups); rank_count(equals) > 1) {
    if (2 * std::uint64_t{rank_count(equals)} <= found.counted) found.equally_late = std::move(equals);
    return found;
  }
  const Rank& rank = *std::find_if(ranks.begin(), ranks.end(), [&](const Rank& r) { return r.rank == late->rank; });
  const auto part = parts.find(late->rank);
  LateRank out;
  out.rank = late->rank;
  out.by_path = by_path;
  out.path = part == parts.end() ? Nanoseconds{} : part->second;
  out.phases = phases_of(run, rank, totals);
  if (out.phases.empty()) return found;
  // Of communication only what is more: a late rank has less of it, since the others come first.
  const auto behind = [](const PhaseDelay& p) {
    return std::max(Nanoseconds{}, p.communication - p.communication_of_others);
  };
  const auto excess = [&](const PhaseDelay& p) {
    return p.compute - p.compute_of_others + p.idle - p.idle_of_others + behind(p);
  };
  const PhaseDelay& worst =
      *std::max_element(out.phases.begin(), out.phases.end(),
                        [&](const PhaseDelay& a, const PhaseDelay& b) { return excess(a) < excess(b); });
  out.phase = worst.phase;
  const Nanoseconds computes = worst.compute - worst.compute_of_others, idles = worst.idle - worst.idle_of_others;
  out.collectives = behind(worst) > std::max(computes, idles);
  out.host = !out.collectives && idles > computes;
  if (!out.host && !out.collectives && found.shapes.empty()) {  // kernels of unlike lengths are not compared
    out.kernels = slower_kernels(run, ranks, rank, label_of(run, rank, out.phase), steps.size());
    out.own = own_kernels(run, steps, rank.rank);
    if (out.own)
      std::erase_if(out.kernels, [](const KernelExcess& kernel) { return kernel.calls != kernel.calls_of_others; });
  }
  const WorkApart work = work_apart(found.shapes, out.rank);
  if (out.host && work == WorkApart::less && run.info.kind == RunKind::imported) {
    found.under_profiler = out.rank;
    found.measured_ms = run.measured ? run.measured->steady_ms() : 0;
    return found;
  }
  out.more_work = work == WorkApart::more && equals_keep_up(found, out.rank);
  found.late = std::move(out);
  return found;
}

}  // namespace foreshard
