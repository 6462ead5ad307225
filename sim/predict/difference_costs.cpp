#include "sim/predict/difference_costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/parallel/for_each.hpp"
#include "sim/predict/simulate_ranks.hpp"

namespace foreshard::sim {
namespace {

/// What is told together where there are too many.
struct Kind {
  const char* all;
  std::vector<NamedDifferences> each;
};

void join(const Differences& one, Differences& all) {
  all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
  all.slow_adapters.insert(all.slow_adapters.end(), one.slow_adapters.begin(), one.slow_adapters.end());
  all.slow_links.insert(all.slow_links.end(), one.slow_links.begin(), one.slow_links.end());
  if (one.background.any()) all.background = one.background;
}

std::vector<Kind> kinds_of(const Differences& all) {
  std::vector<Kind> out{{"the slow GPUs", {}},      {"the slow hosts", {}},     {"the ranks' sources", {}},
                        {"the extra matrices", {}}, {"the ranks' lengths", {}}, {"the slow adapters", {}},
                        {"the slow NVLinks", {}},   {"other traffic", {}}};
  const auto add = [&](std::size_t kind, std::string what) -> Differences& {
    return out[kind].each.emplace_back(NamedDifferences{std::move(what), {}}).differences;
  };
  for (const RankDifference& of : all.ranks) {
    if (of.kernels != 1)
      add(0, fmt::format("rank {}'s GPU", of.rank)).ranks.push_back({.rank = of.rank, .kernels = of.kernels});
    if (of.host != 1)
      add(1, fmt::format("rank {}'s host", of.rank)).ranks.push_back({.rank = of.rank, .host = of.host});
    if (of.workload == nullptr) continue;
    const bool length = of.seq > 0;
    const char* what = length     ? (of.gemms ? "length and extra matrices" : "length")
                       : of.gemms ? "extra matrices"
                                  : "source";
    add(length     ? 4
        : of.gemms ? 3
                   : 2,
        fmt::format("rank {}'s {}", of.rank, what))
        .ranks = {{.rank = of.rank, .workload = of.workload, .seq = of.seq, .gemms = of.gemms}};
  }
  for (const SlowAdapter& slow : all.slow_adapters)
    add(5, fmt::format("adapter {}.{}", slow.node, slow.adapter)).slow_adapters = {slow};
  for (const SlowLink& slow : all.slow_links) add(6, fmt::format("rank {}'s NVLink", slow.rank)).slow_links = {slow};
  if (all.background.any()) add(7, "other traffic").background = all.background;
  return out;
}

/// Whose own it is: ascending, of links and of other traffic none.
std::vector<std::uint32_t> ranks_of(const NamedDifferences& one) {
  std::vector<std::uint32_t> out;
  for (const RankDifference& of : one.differences.ranks) out.push_back(of.rank);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<NamedDifferences> each_of(const Differences& all) {
  const auto skips = [](const RankDifference& of) { return of.skips.has_value(); };
  if (std::any_of(all.ranks.begin(), all.ranks.end(), skips)) return {};  // alone it has no step: the job hangs
  const std::vector<Kind> kinds = kinds_of(all);
  std::vector<NamedDifferences> out;
  for (const Kind& kind : kinds) out.insert(out.end(), kind.each.begin(), kind.each.end());
  if (out.size() <= kMaxTold) return out;
  out.clear();
  for (const Kind& kind : kinds) {
    if (kind.each.empty()) continue;
    NamedDifferences& joined = out.emplace_back(NamedDifferences{kind.all, {}});
    if (kind.each.size() == 1) joined.what = kind.each[0].what;
    for (const NamedDifferences& one : kind.each) join(one.differences, joined.differences);
  }
  return out;
}

Result<std::vector<DifferenceCost>> difference_costs(const Workload& workload, const Settings& settings,
                                                     const MachineProfile& machine, const SimulationRequest& request,
                                                     const Differences& all, const Simulation& steps,
                                                     Nanoseconds alike) {
  const std::vector<NamedDifferences> each = each_of(all);
  if (each.empty()) return std::vector<DifferenceCost>{};
  const Nanoseconds longer = steps.steady_step() - alike;
  if (each.size() == 1) return std::vector<DifferenceCost>{{each[0].what, ranks_of(each[0]), longer, longer}};
  SimulationRequest one = request;
  one.threads = 1;
  // First each alone, then all but each; of two the one is the other.
  const bool two = each.size() == 2;
  std::vector<Result<Nanoseconds>> played(two ? 2 : 2 * each.size(), Nanoseconds{});
  for_each(played.size(), request.threads, [&](std::size_t n) {
    Differences differences;
    for (std::size_t i = 0; i < each.size(); ++i)
      if (n < each.size() ? i == n : i != n - each.size()) join(each[i].differences, differences);
    played[n] = step_with(workload, settings, machine, one, differences, steps);
  });
  std::vector<DifferenceCost> out;
  for (std::size_t i = 0; i < each.size(); ++i) {
    const Result<Nanoseconds>& with = played[i];
    const Result<Nanoseconds>& without = played[two ? 1 - i : each.size() + i];
    FORESHARD_TRY(with);
    FORESHARD_TRY(without);
    out.push_back({each[i].what, ranks_of(each[i]), *with - alike, steps.steady_step() - *without});
  }
  return out;
}

}  // namespace foreshard::sim
