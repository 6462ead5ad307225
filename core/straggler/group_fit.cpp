#include "core/straggler/group_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "core/device/collective_names.hpp"
#include "core/run/collective_key.hpp"
#include "core/settings/settings.hpp"
#include "core/straggler/quantile.hpp"

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

struct Moves {
  std::uint32_t ranks = 0;
  Nanoseconds last_start, last_end;
  CollectiveKind kind = CollectiveKind::all_gather;
  Bytes bytes = 0;
};

using Shape = std::tuple<CollectiveKind, Bytes, Places>;

/// The times of whole groups' collectives, ns.
std::map<Shape, std::map<Members, std::vector<double>>> times_by_shape(const Run& run,
                                                                       const std::set<std::int32_t>& steps) {
  std::map<CollectiveKey, Moves> moves;
  std::map<CommunicatorId, std::set<std::uint32_t>> groups;
  for (const RankOpRecord& row : run.rank_ops) {
    if (row.op.kind != DeviceOpRecord::Kind::collective || row.sequence < 0 || !steps.contains(row.step)) continue;
    groups[row.op.communicator].insert(row.rank);
    Moves& one = moves[key_of(row)];
    ++one.ranks;
    one.last_start = std::max(one.last_start, row.op.start);
    one.last_end = std::max(one.last_end, row.op.end);
    one.kind = row.op.collective;
    one.bytes = row.op.bytes;
  }
  std::map<Shape, std::map<Members, std::vector<double>>> out;
  for (const auto& [key, one] : moves) {
    const std::set<std::uint32_t>& group = groups.at(key.communicator);
    const Members members(group.begin(), group.end());
    if (members.size() < 2 || one.ranks < members.size() || one.last_end <= one.last_start || !is_whole(members, run))
      continue;
    out[{one.kind, one.bytes, places_of(members, run.settings)}][members].push_back(
        static_cast<double>((one.last_end - one.last_start).count));
  }
  return out;
}

}  // namespace

LinksFit fit_links(const Run& run, const std::set<std::int32_t>& steps) {
  LinksFit out;
  std::set<Members> whole, compared;
  std::map<std::pair<Members, CollectiveKind>, std::vector<std::pair<double, double>>> samples;
  for (const auto& [shape, groups] : times_by_shape(run, steps)) {
    for (const auto& [members, times] : groups) (groups.size() > 1 ? compared : whole).insert(members);
    if (groups.size() < 2) continue;
    std::vector<double> all;
    for (const auto& [members, times] : groups) all.push_back(lower_quantile(times, 0.25));
    const double middle = lower_median(all);
    for (const auto& [members, times] : groups)
      samples[{members, std::get<CollectiveKind>(shape)}].emplace_back(lower_quantile(times, 0.25) / middle,
                                                                       middle * static_cast<double>(times.size()));
  }
  for (auto& [group, of] : samples) {
    const FittedFactor time = fitted_factor(std::move(of));
    out.compared.furthest = std::max(out.compared.furthest, std::abs(time.value - 1));
    if (time.value > 1 && time.differs(kAlikeLinks))
      out.slower.push_back({group.first, std::string(dashed_name(group.second)), time});
  }
  whole.insert(compared.begin(), compared.end());
  out.compared.groups = static_cast<std::uint32_t>(whole.size());
  out.compared.compared = static_cast<std::uint32_t>(compared.size());
  return out;
}

}  // namespace foreshard::straggler_detail
