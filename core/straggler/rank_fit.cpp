#include "core/straggler/rank_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/run/blocked_launch.hpp"
#include "core/straggler/compared_steps.hpp"
#include "core/straggler/quantile.hpp"

namespace foreshard {
namespace {

using straggler_detail::lower_median;
using straggler_detail::lower_quantile;

/// What makes two kernels the same on two ranks: name and grid.
using KernelKind = std::pair<std::uint32_t, std::array<std::uint32_t, 3>>;

/// A launch behind another one.
using LaunchKind = std::pair<std::uint32_t, std::uint32_t>;

struct OfRank {
  std::map<KernelKind, std::vector<double>> kernels;  // ns
  std::map<LaunchKind, std::vector<double>> launches;
};

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

double ns(Nanoseconds time) {
  return static_cast<double>(time.count);
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

/// Those of each rank's equally many times that are at most `longest` on all ranks.
std::vector<std::vector<double>> comparable(const std::vector<const std::vector<double>*>& times, double longest) {
  std::vector<std::vector<double>> out(times.size());
  for (std::size_t i = 0; i < times[0]->size(); ++i) {
    if (std::any_of(times.begin(), times.end(), [&](const auto* of) { return (*of)[i] > longest; })) continue;
    for (std::size_t rank = 0; rank < times.size(); ++rank) out[rank].push_back((*times[rank])[i]);
  }
  return out;
}

class Fitting {
 public:
  explicit Fitting(const Run& run) : run_(run), steps_(straggler_detail::compared_steps(run)) {
    for (const RankRecord& rank : run.ranks) by_rank_[rank.rank];
    read();
  }

  std::optional<RanksFit> run() {
    if (by_rank_.size() < 2 || !all_ran()) return std::nullopt;
    const std::vector<FittedFactor> kernels = factors(&OfRank::kernels, kAnyTime);
    const std::vector<FittedFactor> hosts = factors(&OfRank::launches, ns(kBlockedLaunch));
    RanksFit out;
    out.world = run_.settings.world();
    out.steps = static_cast<std::uint32_t>(steps_.size());
    const std::map<KernelKind, Runs> kinds = kernel_runs();
    for (const auto& [rank, of] : by_rank_) {
      const std::size_t place = out.ranks.size();
      const double pace = kernels[place].differs(kAlikeKernels) ? kernels[place].value : 1;
      out.ranks.push_back({rank, kernels[place], hosts[place], own(place, kinds, pace)});
    }
    straggler_detail::LinksFit links = straggler_detail::fit_links(run_, steps_);
    out.groups = std::move(links.slower);
    out.links = links.compared;
    if (run_.info.kind == RunKind::imported) out.source = run_.ranks.front().rank;
    return out;
  }

 private:
  void read() {
    std::map<std::uint32_t, const RankOpRecord*> last;  // by rank
    for (const RankOpRecord& row : run_.rank_ops) {
      if (!steps_.contains(row.step)) continue;
      OfRank& of = by_rank_[row.rank];
      const RankOpRecord*& before = last[row.rank];
      if (before != nullptr && before->step == row.step && row.op.issue > before->op.issue)
        of.launches[{before->op.label.value, row.op.label.value}].push_back(ns(row.op.issue - before->op.issue));
      before = &row;
      if (row.op.kind != DeviceOpRecord::Kind::collective && row.op.end > row.op.start)
        of.kernels[{row.op.label.value, row.op.grid}].push_back(ns(row.op.end - row.op.start));
    }
    ran_ = last.size();
  }

  [[nodiscard]] bool all_ran() const { return ran_ == by_rank_.size(); }

  /// By rank, over all kinds that every rank has equally often; of those the times up to `longest`.
  template <class Kinds>
  std::vector<FittedFactor> factors(Kinds OfRank::*member, double longest) const {
    std::vector<std::vector<std::pair<double, double>>> samples(by_rank_.size());
    for (const auto& [kind, first] : by_rank_.begin()->second.*member) {
      std::vector<const std::vector<double>*> times;
      for (const auto& [rank, of] : by_rank_)
        if (const auto found = (of.*member).find(kind);
            found != (of.*member).end() && found->second.size() == first.size())
          times.push_back(&found->second);
      if (times.size() < by_rank_.size()) continue;
      std::vector<double> undisturbed;
      const auto compared = comparable(times, longest);
      for (const std::vector<double>& of : compared) undisturbed.push_back(lower_quantile(of, 0.25));
      const double middle = lower_median(undisturbed);
      if (middle <= 0) continue;
      for (std::size_t rank = 0; rank < samples.size(); ++rank)
        samples[rank].emplace_back(undisturbed[rank] / middle, middle * static_cast<double>(compared[rank].size()));
    }
    std::vector<FittedFactor> out;
    for (auto& of : samples) out.push_back(straggler_detail::fitted_factor(std::move(of)));
    return out;
  }

  /// How often each rank runs a kind of kernel, and for how long in all.
  struct Runs {
    std::vector<double> counts, times;
  };

  [[nodiscard]] std::map<KernelKind, Runs> kernel_runs() const {
    std::map<KernelKind, Runs> out;
    std::size_t place = 0;
    for (const auto& [rank, of] : by_rank_) {
      for (const auto& [kind, times] : of.kernels) {
        Runs& runs = out[kind];
        runs.counts.resize(by_rank_.size());
        runs.times.resize(by_rank_.size());
        runs.counts[place] = static_cast<double>(times.size());
        runs.times[place] = sum_of(times);
      }
      ++place;
    }
    return out;
  }

  /// Kinds that the rank at `place` runs another number of times than the middle rank. They need not last as long as
  /// others of their kind, so their time is what the kind's sums differ by, but for the factor `pace` of the rank's
  /// GPU.
  [[nodiscard]] std::optional<OwnKernels> own(std::size_t place, const std::map<KernelKind, Runs>& kinds,
                                              double pace) const {
    OwnKernels out;
    double most = 0, extra = 0, missing = 0;
    for (const auto& [kind, runs] : kinds) {
      const double count = runs.counts[place], middle = lower_median(runs.counts);
      if (count == middle) continue;
      const bool more = count > middle;
      const double mine = runs.times[place], others = lower_median(runs.times);
      const double time = std::max(0.0, more ? mine - pace * others : others - mine / pace);
      (more ? out.extra : out.missing) += std::abs(count - middle);
      (more ? extra : missing) += time;
      if (time <= most) continue;
      most = time;
      out.name = std::string(run_.labels.text(LabelId{kind.first}));
    }
    if (std::max(extra, missing) <= kAlikeKernels * kernel_time()) return std::nullopt;
    const auto steps = static_cast<double>(steps_.size());
    out.extra /= steps;
    out.missing /= steps;
    out.extra_time = Nanoseconds{std::llround(extra / steps)};
    out.missing_time = Nanoseconds{std::llround(missing / steps)};
    return out;
  }

  /// The middle rank's, of all steps, ns.
  [[nodiscard]] double kernel_time() const {
    std::vector<double> sums;
    for (const auto& [rank, of] : by_rank_) {
      double& sum = sums.emplace_back();
      for (const auto& [kind, times] : of.kernels) sum += sum_of(times);
    }
    return lower_median(sums);
  }

  const Run& run_;
  std::set<std::int32_t> steps_;
  std::map<std::uint32_t, OfRank> by_rank_;
  std::size_t ran_ = 0;  // ranks with ops in `steps_`
};

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
  return Fitting(run).run();
}

}  // namespace foreshard
