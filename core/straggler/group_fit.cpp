#include "core/straggler/group_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/run/collective_key.hpp"
#include "core/settings/settings.hpp"
#include "core/straggler/quantile.hpp"
#include "core/straggler/runs_beside.hpp"

namespace foreshard::straggler_detail {
namespace {

using Members = std::vector<std::uint32_t>;

/// By how many ranks, and nodes, each member lies behind the first.
using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Places places_of(const Members& members, const Settings& settings) {
  Places out;
  for (const std::uint32_t rank : members)
    out.emplace_back(rank - members[0], rank / settings.gpus - members[0] / settings.gpus);
  return out;
}

/// All along one dimension of the mesh, as init_device_mesh() numbers it: the last dimension's neighbours are next to
/// each other.
bool is_whole(const Members& members, const Run& run) {
  const Settings& settings = run.settings;
  if (run.ranks.size() >= settings.world()) return true;
  const std::uint32_t tensor = settings.tensor_parallel, shard = settings.shard_ranks();
  const std::uint32_t experts = settings.expert_parallel;
  for (const auto& [stride, size] :
       {std::pair{1U, tensor}, std::pair{tensor, shard}, std::pair{tensor, experts},
        std::pair{tensor * experts, shard / experts}, std::pair{tensor * shard, settings.replicate}}) {
    bool along = members.size() == size && members[0] / stride % size == 0;
    for (std::size_t i = 0; along && i < members.size(); ++i)
      along = members[i] == members[0] + static_cast<std::uint32_t>(i) * stride;
    if (along) return true;
  }
  return false;
}

/// One collective on all its ranks.
struct Moves {
  std::uint32_t ranks = 0;
  Nanoseconds last_start, last_end;
  const DeviceOpRecord* op = nullptr;
};

/// One collective of a whole group: its time from the last rank's start on.
struct Moved {
  Nanoseconds time;
  Nanoseconds beside;  ///< of it, while anything else ran on one of its ranks
  Nanoseconds met;     ///< of it, while another group sent between nodes
};

using Shape = std::tuple<CollectiveKind, Transport, Bytes, Places>;
using MovedByShape = std::map<Shape, std::map<Members, std::vector<Moved>>>;

bool crosses_nodes(const Members& members, const Settings& settings) {
  return members.front() / settings.gpus != members.back() / settings.gpus;
}

/// The collectives of whole groups.
class WholeGroups {
 public:
  WholeGroups(const Run& run, const std::set<std::int32_t>& steps) : run_(run), beside_(run) {
    for (const RankOpRecord& row : run.rank_ops) {
      if (row.op.kind != DeviceOpRecord::Kind::collective || row.sequence < 0 || !steps.contains(row.step)) continue;
      groups_[row.op.communicator].insert(row.rank);
      Moves& one = moves_[key_of(row)];
      ++one.ranks;
      one.last_start = std::max(one.last_start, row.op.start);
      one.last_end = std::max(one.last_end, row.op.end);
      one.op = &row.op;
    }
    find_met();
  }

  [[nodiscard]] MovedByShape by_shape() const {
    MovedByShape out;
    for (const auto& [key, one] : moves_) {
      const Members members = members_of(key.communicator);
      if (members.size() < 2 || one.ranks < members.size() || one.last_end <= one.last_start ||
          !is_whole(members, run_))
        continue;
      const TimeSpans met =
          crosses_nodes(members, run_.settings) ? within(met_, one.last_start, one.last_end) : TimeSpans{};
      out[{one.op->collective, one.op->transport, one.op->bytes, places_of(members, run_.settings)}][members].push_back(
          {one.last_end - one.last_start, beside_.during(members, one.last_start, one.last_end), length(met)});
    }
    return out;
  }

 private:
  [[nodiscard]] Members members_of(CommunicatorId communicator) const {
    const std::set<std::uint32_t>& group = groups_.at(communicator);
    return {group.begin(), group.end()};
  }
  void find_met() {
    std::map<CommunicatorId, TimeSpans> sending;
    for (const auto& [key, one] : moves_)
      if (one.last_end > one.last_start && crosses_nodes(members_of(key.communicator), run_.settings))
        sending[key.communicator].emplace_back(one.last_start, one.last_end);
    std::vector<TimeSpans> sets;
    for (auto& [communicator, spans] : sending) sets.push_back(std::move(spans));
    met_ = several_at_once(sets);
  }

  const Run& run_;
  RunsBeside beside_;
  std::map<CollectiveKey, Moves> moves_;
  std::map<CommunicatorId, std::set<std::uint32_t>> groups_;
  TimeSpans met_;  ///< when several groups sent between nodes
};

/// By what the clocks of the ranks may be off.
double clock_error(const Run& run, const Members& members) {
  Nanoseconds most;
  for (const RankRecord& rank : run.ranks)
    if (std::binary_search(members.begin(), members.end(), rank.rank)) most = std::max(most, rank.clock_error);
  return static_cast<double>(most.count);
}

/// Those that ran alone say what one takes; where none did, each says between what and what that lies.
GroupReading reading(const Run& run, const Shape& shape, const Members& members, const std::vector<Moved>& moved) {
  std::vector<double> most, least, met;
  const bool any_alone =
      std::any_of(moved.begin(), moved.end(), [](const Moved& one) { return is_alone(one.beside, one.time); });
  for (const Moved& one : moved) {
    if (any_alone && !is_alone(one.beside, one.time)) continue;
    most.push_back(static_cast<double>(one.time.count));
    least.push_back(static_cast<double>((one.time - one.beside).count));
    met.push_back(static_cast<double>(one.met.count));
  }
  const double off = clock_error(run, members);
  GroupReading out{members, std::get<CollectiveKind>(shape), std::get<Transport>(shape), std::get<Bytes>(shape)};
  out.count = static_cast<std::uint32_t>(most.size());
  out.most = lower_quantile(most, 0.25) + off;
  out.least = std::max(0.0, std::min(lower_quantile(least, any_alone ? 0.25 : 1.0), out.most) - off);
  out.met = lower_quantile(met, 0.25);
  return out;
}

/// Over what `middle` takes alone. What one met of other groups and the other did not may have made it longer.
WeightedRange over(const GroupReading& group, const GroupReading& middle) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const double least = std::max(0.0, group.least - std::max(0.0, group.met - middle.met));
  const double of_middle = std::max(0.0, middle.least - std::max(0.0, middle.met - group.met));
  return {least / middle.most, of_middle > 0 ? group.most / of_middle : kAny,
          std::min(group.least, middle.least) * group.count};
}

const GroupReading& middle_of(const std::vector<GroupReading>& groups) {
  std::vector<std::pair<double, const GroupReading*>> by_time;
  for (const GroupReading& group : groups) by_time.emplace_back(group.most, &group);
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return *by_time[(by_time.size() - 1) / 2].second;
}

}  // namespace

FactorRange factor_range(const std::vector<WeightedRange>& samples) {
  std::vector<std::pair<double, double>> least, most;
  for (const WeightedRange& sample : samples) {
    least.emplace_back(sample.least, sample.weight);
    most.emplace_back(sample.most, sample.weight);
  }
  return {fitted_factor(std::move(least)), fitted_factor(std::move(most))};
}

/// Of one group's sizes of one kind, by what each takes over the middle group's.
static GroupFit group_fit(const std::vector<std::pair<WeightedRange, GroupReading>>& sizes) {
  std::vector<WeightedRange> ranges;
  const auto* clearest = &sizes.front();
  for (const auto& size : sizes) {
    ranges.push_back(size.first);
    if (size.first.weight > clearest->first.weight) clearest = &size;
  }
  return {clearest->second.ranks, clearest->second.kind, factor_range(ranges), clearest->second, clearest->first.least};
}

LinksFit fit_links(const Run& run, const std::set<std::int32_t>& steps) {
  LinksFit out;
  std::set<Members> whole, compared;
  std::map<std::pair<Members, CollectiveKind>, std::vector<std::pair<WeightedRange, GroupReading>>> samples;
  for (const auto& [shape, groups] : WholeGroups(run, steps).by_shape()) {
    std::vector<GroupReading> readings;
    for (const auto& [members, moved] : groups) {
      (groups.size() > 1 ? compared : whole).insert(members);
      readings.push_back(reading(run, shape, members, moved));
    }
    if (readings.size() > 1)
      for (const GroupReading& group : readings)
        samples[{group.ranks, group.kind}].emplace_back(over(group, middle_of(readings)), group);
    out.readings.insert(out.readings.end(), readings.begin(), readings.end());
  }
  std::set<Members> known;
  for (const auto& [group, of] : samples) {
    const GroupFit fit = group_fit(of);
    const FittedFactor time = fit.time.sure();
    if (std::isfinite(fit.time.most.value)) {
      known.insert(fit.ranks);
      out.compared.furthest =
          std::max({out.compared.furthest, std::abs(time.value - 1), std::abs(fit.time.most.value - 1)});
    }
    (time.value > 1 && time.differs(kAlikeLinks) ? out.slower : out.alike).push_back(fit);
  }
  whole.insert(compared.begin(), compared.end());
  out.compared.groups = static_cast<std::uint32_t>(whole.size());
  out.compared.compared = static_cast<std::uint32_t>(compared.size());
  out.compared.hidden = static_cast<std::uint32_t>(compared.size() - known.size());
  return out;
}

}  // namespace foreshard::straggler_detail

namespace foreshard {

FittedFactor FactorRange::sure() const {
  if (least.value > 1) return least;
  return most.value < 1 ? most : FittedFactor{1, 0, least.samples};
}

bool FactorRange::is_narrow() const {
  return most.value - least.value <= kAlikeLinks * least.value;
}

}  // namespace foreshard
