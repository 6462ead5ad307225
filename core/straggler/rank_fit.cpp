#include "core/straggler/rank_fit.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/run/blocked_launch.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/straggler/compared_steps.hpp"
#include "core/straggler/kind_factors.hpp"

namespace foreshard {
namespace {

/// A launch behind another one.
using LaunchKind = std::pair<std::uint32_t, std::uint32_t>;
using Launches = std::map<LaunchKind, std::vector<straggler_detail::TimedWork>>;

double ns(Nanoseconds time) {
  return static_cast<double>(time.count);
}

/// From launch to launch: of each rank of `ranks` in order. What a full launch queue blocks is not the host's doing.
std::vector<Launches> launches_of(const Run& run, const std::vector<std::uint32_t>& ranks,
                                  const std::set<std::int32_t>& steps) {
  std::vector<Launches> out(ranks.size());
  std::map<std::uint32_t, const RankOpRecord*> last;  // by rank
  for (const RankOpRecord& row : run.rank_ops) {
    if (!steps.contains(row.step)) continue;
    const auto place = std::lower_bound(ranks.begin(), ranks.end(), row.rank) - ranks.begin();
    const RankOpRecord*& before = last[row.rank];
    if (before != nullptr && before->step == row.step && row.op.issue > before->op.issue)
      out[static_cast<std::size_t>(place)][{before->op.label.value, row.op.label.value}].push_back(
          {ns(row.op.issue - before->op.issue), row.op.issue - before->op.issue <= kBlockedLaunch});
    before = &row;
  }
  return out;
}

/// Every recorded rank ran something in the steps.
bool all_ran(const Run& run, const std::vector<std::uint32_t>& ranks) {
  return std::all_of(run.ranks.begin(), run.ranks.end(),
                     [&](const RankRecord& rank) { return std::binary_search(ranks.begin(), ranks.end(), rank.rank); });
}

}  // namespace

const RankFit* RanksFit::source_rank() const {
  const auto found =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankFit& rank) { return source && rank.rank == *source; });
  return found == ranks.end() ? nullptr : &*found;
}

bool is_folded_plan(const Run& run) {
  return run.info.kind == RunKind::planned && !run.ranks.empty() && run.ranks.size() < run.settings.world();
}

std::optional<RanksFit> fit_ranks(const Run& run) {
  if (is_folded_plan(run)) return std::nullopt;
  const std::set<std::int32_t> steps = straggler_detail::compared_steps(run);
  const straggler_detail::KernelKinds kinds(run, steps);
  const std::vector<std::uint32_t>& ranks = kinds.ranks();
  if (ranks.size() < 2 || !all_ran(run, ranks)) return std::nullopt;
  const auto hosts = straggler_detail::kind_factors(launches_of(run, ranks, steps));
  RanksFit out;
  out.world = run.settings.world();
  out.shapes = rank_shapes(run);
  out.steps = static_cast<std::uint32_t>(steps.size());
  for (std::size_t place = 0; place < ranks.size(); ++place)
    out.ranks.push_back(out.shapes.empty()
                            ? RankFit{ranks[place], kinds.factors()[place], hosts[place], kinds.own(place)}
                            : RankFit{ranks[place], {}, hosts[place], {}});
  straggler_detail::LinksFit links = straggler_detail::fit_links(run, steps);
  out.groups = std::move(links.slower);
  out.alike_groups = std::move(links.alike);
  out.readings = std::move(links.readings);
  out.links = links.compared;
  if (run.info.kind == RunKind::imported) out.source = run.ranks.front().rank;
  return out;
}

}  // namespace foreshard
