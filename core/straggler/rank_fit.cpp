#include "core/straggler/rank_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/device/collective_names.hpp"
#include "core/run/collective_key.hpp"

namespace foreshard {
namespace {

/// Of values that may be reordered; `share` from 0 (the least) to 1.
double quantile(std::vector<double>& values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

/// Ratios with weights: the median and the middle half, where half and quarters of the weight lie.
FittedFactor weighted(std::vector<std::pair<double, double>> samples) {
  FittedFactor out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  double all = 0;
  for (const auto& [value, weight] : samples) all += weight;
  const auto at = [&](double share) {
    double sum = 0;
    for (const auto& [value, weight] : samples) {
      sum += weight;
      if (sum >= share * all) return value;
    }
    return samples.back().first;
  };
  out.value = at(0.5);
  out.spread = (at(0.75) - at(0.25)) / 2;
  out.samples = static_cast<std::uint32_t>(samples.size());
  return out;
}

/// What makes two kernels the same on two ranks: name and grid.
using KernelKind = std::pair<std::uint32_t, std::array<std::uint32_t, 3>>;

/// A launch behind another one.
using LaunchKind = std::pair<std::uint32_t, std::uint32_t>;

struct OfRank {
  std::map<KernelKind, std::vector<double>> kernels;  // ns
  std::map<LaunchKind, std::vector<double>> launches;
};

bool is_collective(const RankOpRecord& row) {
  return row.op.kind == DeviceOpRecord::Kind::collective;
}

class Fitting {
 public:
  explicit Fitting(const Run& run) : run_(run) {
    std::set<std::int32_t> steps;
    for (const RankOpRecord& row : run.rank_ops)
      if (row.step >= 0) steps.insert(row.step);
    if (steps.size() > 1) steps.erase(steps.begin());
    steps_ = std::move(steps);
    for (const RankRecord& rank : run.ranks) ranks_.push_back(rank.rank);
    std::sort(ranks_.begin(), ranks_.end());
    read();
  }

  std::optional<RanksFit> run() {
    if (ranks_.size() < 2 || steps_.empty()) return std::nullopt;
    RanksFit out;
    out.world = run_.settings.world();
    out.steps = static_cast<std::uint32_t>(steps_.size());
    for (const std::uint32_t rank : ranks_)
      out.ranks.push_back({rank, factor(rank, &OfRank::kernels), factor(rank, &OfRank::launches), own(rank)});
    out.groups = groups();
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
      if (!is_collective(row) && row.op.end > row.op.start)
        of.kernels[{row.op.label.value, row.op.grid}].push_back(ns(row.op.end - row.op.start));
    }
  }

  static double ns(Nanoseconds time) { return static_cast<double>(time.count); }

  /// Over all kinds that every rank has equally often.
  template <class Kinds>
  FittedFactor factor(std::uint32_t rank, Kinds OfRank::*member) {
    std::vector<std::pair<double, double>> samples;
    for (auto& [kind, times] : by_rank_[rank].*member) {
      std::vector<double> undisturbed;
      for (const std::uint32_t other : ranks_) {
        Kinds& kinds = by_rank_[other].*member;
        const auto found = kinds.find(kind);
        if (found == kinds.end() || found->second.size() != times.size()) break;
        undisturbed.push_back(quantile(found->second, 0.25));
      }
      if (undisturbed.size() < ranks_.size()) continue;
      const double mine = quantile(times, 0.25);
      const double middle = middle_of(undisturbed);
      if (middle > 0) samples.push_back({mine / middle, middle * static_cast<double>(times.size())});
    }
    return weighted(std::move(samples));
  }

  /// Of an even number the mean of the two in the middle.
  static double middle_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  }

  /// Kinds that this rank runs another number of times than the middle rank.
  std::optional<OwnKernels> own(std::uint32_t rank) {
    std::set<KernelKind> kinds;
    for (const auto& [other, of] : by_rank_)
      for (const auto& [kind, times] : of.kernels) kinds.insert(kind);
    OwnKernels out;
    double most = 0, all = 0;
    for (const KernelKind& kind : kinds) {
      std::vector<double> counts, sums;
      double count = 0, sum = 0;
      for (const std::uint32_t other : ranks_) {
        const auto found = by_rank_[other].kernels.find(kind);
        double total = 0;
        if (found != by_rank_[other].kernels.end())
          for (const double time : found->second) total += time;
        counts.push_back(found == by_rank_[other].kernels.end() ? 0 : static_cast<double>(found->second.size()));
        sums.push_back(total);
        if (other == rank) count = counts.back(), sum = total;
      }
      if (count == middle_of(counts)) continue;
      const double beyond = sum - middle_of(sums);
      out.launches += count - middle_of(counts);
      all += beyond;
      if (std::abs(beyond) <= most) continue;
      most = std::abs(beyond);
      out.name = std::string(run_.labels.text(LabelId{kind.first}));
    }
    if (most == 0) return std::nullopt;
    const auto steps = static_cast<double>(steps_.size());
    out.time = Nanoseconds{std::llround(all / steps)};
    out.launches /= steps;
    return out;
  }

  struct Moves {
    std::set<std::uint32_t> ranks;
    Nanoseconds last_start, last_end;
    CollectiveKind kind = CollectiveKind::all_gather;
    Bytes bytes = 0;
  };

  /// Groups of one kind, size and number of ranks against one another.
  std::vector<GroupFit> groups() {
    std::map<CollectiveKey, Moves> moves;
    for (const RankOpRecord& row : run_.rank_ops) {
      if (!is_collective(row) || row.sequence < 0 || !steps_.contains(row.step)) continue;
      Moves& one = moves[key_of(row)];
      one.ranks.insert(row.rank);
      one.last_start = std::max(one.last_start, row.op.start);
      one.last_end = std::max(one.last_end, row.op.end);
      one.kind = row.op.collective;
      one.bytes = row.op.bytes;
    }
    using Shape = std::tuple<CollectiveKind, Bytes, std::size_t>;
    std::map<Shape, std::map<std::vector<std::uint32_t>, std::vector<double>>> by_shape;
    for (const auto& [key, one] : moves)
      if (one.ranks.size() > 1 && one.last_end > one.last_start)
        by_shape[{one.kind, one.bytes, one.ranks.size()}][{one.ranks.begin(), one.ranks.end()}].push_back(
            ns(one.last_end - one.last_start));
    std::map<std::pair<std::vector<std::uint32_t>, CollectiveKind>, std::vector<std::pair<double, double>>> samples;
    for (auto& [shape, groups] : by_shape) {
      if (groups.size() < 2) continue;
      std::vector<double> all;
      for (auto& [ranks, times] : groups) all.push_back(quantile(times, 0.25));
      const double middle = middle_of(all);
      for (auto& [ranks, times] : groups)
        samples[{ranks, std::get<0>(shape)}].push_back(
            {quantile(times, 0.25) / middle, middle * static_cast<double>(times.size())});
    }
    std::vector<GroupFit> out;
    for (auto& [group, of] : samples) {
      const FittedFactor time = weighted(std::move(of));
      if (time.differs(kAlikeLinks)) out.push_back({group.first, std::string(dashed_name(group.second)), time});
    }
    return out;
  }

  const Run& run_;
  std::set<std::int32_t> steps_;
  std::vector<std::uint32_t> ranks_;
  std::map<std::uint32_t, OfRank> by_rank_;
};

}  // namespace

bool FittedFactor::differs(double least) const {
  return samples > 0 && std::abs(value - 1) > std::max(least, spread);
}

std::optional<RanksFit> fit_ranks(const Run& run) {
  return Fitting(run).run();
}

}  // namespace foreshard
