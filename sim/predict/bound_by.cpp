#include "sim/predict/bound_by.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

/// Whether what makes the rank's group unlike others is its own, and not its links.
bool is_slow_itself(const Prediction& p, std::uint32_t rank) {
  const auto holds = [&](const RankRun& run) {
    return rank >= run.first && (rank - run.first) % run.stride == 0 && (rank - run.first) / run.stride < run.count;
  };
  return std::any_of(p.ranks.begin(), p.ranks.end(), [&](const RankGroup& group) {
    const bool slow = group.traits.kernels > 1 || group.traits.host > 1 || group.own_workload;
    return slow && std::any_of(group.members.begin(), group.members.end(), holds);
  });
}

}  // namespace

std::vector<RankRun> late_ranks(const Prediction& p) {
  if (!p.stragglers || p.step_ms - p.step_alike_ms < kShownMs) return {};
  const std::uint32_t own = p.told_rank;
  if (const auto& late = p.stragglers->late)
    return late->collectives || late->rank == own ? std::vector<RankRun>{} : std::vector{RankRun{late->rank, 1}};
  const std::vector<RankRun>& equal = p.stragglers->equally_late;
  const bool slow = std::all_of(equal.begin(), equal.end(),
                                [&](const RankRun& run) { return run.first != own && is_slow_itself(p, run.first); });
  return slow ? equal : std::vector<RankRun>{};
}

BoundBy Prediction::bound_by() const {
  if (host_bound && step_ms > kHostLengthens * gpu_step_ms) return BoundBy::host;
  if (!late_ranks(*this).empty()) return BoundBy::ranks;
  return communication_ms > compute_ms ? BoundBy::links : BoundBy::gpu;
}

}  // namespace foreshard::sim
