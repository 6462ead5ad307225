#include "core/straggler/kernel_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/straggler/quantile.hpp"
#include "core/straggler/runs_beside.hpp"

namespace foreshard::straggler_detail {
namespace {

double sum_of(const std::vector<TimedWork>& works) {
  return std::accumulate(works.begin(), works.end(), 0.0, [](double sum, const auto& work) { return sum + work.time; });
}

template <class Works>
Works all_undisturbed(Works works) {
  for (auto& of : works)
    for (auto& [kind, times] : of)
      for (TimedWork& work : times) work.undisturbed = true;
  return works;
}

/// Launches and their time, of all steps.
struct Launches {
  double count = 0, time = 0;  // ns

  [[nodiscard]] double each(double steps) const { return count / steps; }
  [[nodiscard]] Nanoseconds time_each(double steps) const { return {std::llround(time / steps)}; }
};

}  // namespace

KernelKinds::KernelKinds(const Run& run, const std::set<std::int32_t>& steps)
    : run_(run), steps_(static_cast<double>(steps.size())) {
  const RunsBeside beside(run);
  std::map<std::uint32_t, std::map<Kind, std::vector<TimedWork>>> by_rank;
  for (const RankOpRecord& row : run.rank_ops) {
    if (!steps.contains(row.step)) continue;
    auto& kinds = by_rank[row.rank];
    const Nanoseconds time = row.op.end - row.op.start;
    if (row.op.kind != DeviceOpRecord::Kind::collective && time.count > 0)
      kinds[{row.op.kind, row.op.label.value, row.op.grid}].push_back(
          {static_cast<double>(time.count), is_alone(beside.during(row.rank, row.op.start, row.op.end), time)});
  }
  for (auto& [rank, kinds] : by_rank) {
    ranks_.push_back(rank);
    works_.push_back(std::move(kinds));
  }
  factors_ = kind_factors(works_);
  if (!factors_.empty() && factors_.front().samples == 0) factors_ = kind_factors(all_undisturbed(works_));
}

std::optional<OwnKernels> KernelKinds::own(std::size_t place) const {
  const double pace = factors_[place].differs(kAlikeKernels) ? factors_[place].value : 1;
  std::set<Kind> kinds;
  for (const auto& of : works_)
    for (const auto& [kind, works] : of) kinds.insert(kind);
  OwnKernels out;
  double most = 0;
  Launches extra[2], missing[2];  // kernels; memsets and copies
  for (const Kind& kind : kinds) {
    std::vector<double> counts, sums;
    for (const auto& of : works_) {
      const auto found = of.find(kind);
      counts.push_back(found == of.end() ? 0 : static_cast<double>(found->second.size()));
      sums.push_back(found == of.end() ? 0 : sum_of(found->second));
    }
    const double count = counts[place], mine = sums[place];
    const double middle = lower_median(counts), others = lower_median(sums);
    if (count == middle) continue;
    const bool more = count > middle;
    const double time = std::max(0.0, more ? mine - pace * others : others - mine / pace);
    Launches& of = (more ? extra : missing)[std::get<0>(kind) == DeviceOpRecord::Kind::kernel ? 0 : 1];
    of.count += std::abs(count - middle);
    of.time += time;
    if (time <= most) continue;
    most = time;
    out.name = std::string(run_.labels.text(LabelId{std::get<1>(kind)}));
  }
  if (std::max(extra[0].time + extra[1].time, missing[0].time + missing[1].time) <= kAlikeKernels * middle_time())
    return std::nullopt;
  out.extra = extra[0].each(steps_);
  out.extra_time = extra[0].time_each(steps_);
  out.missing = missing[0].each(steps_);
  out.missing_time = missing[0].time_each(steps_);
  out.extra_copies = extra[1].each(steps_);
  out.extra_copies_time = extra[1].time_each(steps_);
  out.missing_copies = missing[1].each(steps_);
  out.missing_copies_time = missing[1].time_each(steps_);
  return out;
}

/// The middle rank's kernels, of all steps, ns.
double KernelKinds::middle_time() const {
  std::vector<double> sums;
  for (const auto& of : works_) {
    double& sum = sums.emplace_back();
    for (const auto& [kind, works] : of) sum += sum_of(works);
  }
  return lower_median(sums);
}

}  // namespace foreshard::straggler_detail
