#include "sim/link_load/run_groups.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/settings/mesh_groups.hpp"
#include "core/workload/program_group.hpp"

namespace foreshard::sim {
namespace {

using Asked = std::set<std::pair<CollectiveKind, Bytes>>;

/// By process group, what the program issues in it.
std::vector<Asked> asked_in(const Workload& workload) {
  std::vector<Asked> out(workload.process_groups.size());
  for (const Program& step : workload.steps)
    for (const Op& op : step.ops)
      if (op.kind == OpKind::collective && op.collective.group < out.size())
        out[op.collective.group].insert({op.collective.kind, op.collective.bytes});
  return out;
}

/// What a run did on one communicator.
struct Seen {
  Asked asked;
  std::set<CollectiveKind> kinds;
  UnitId unit;   ///< of the first that has one
  UnitId least;  ///< the first of all
};

std::uint32_t kept_together(const Run& run, UnitId unit) {
  if (!unit.valid() || unit.value >= run.units.size()) return 0;
  const auto own = run.settings.reshard_of_unit.find(run.units[unit.value].name);
  const Reshard& reshard = own == run.settings.reshard_of_unit.end() ? run.settings.reshard_after_forward : own->second;
  return reshard.kind == Reshard::Kind::group ? reshard.group_size : 0;
}

bool covers(const Asked& all, const Asked& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

/// One that the mesh of the run has room for.
std::optional<RunGroup> checked(RunGroup group, const Settings& settings) {
  group.rank_stride = std::max(group.rank_stride, 1U);
  if (group.options.ranks == 0 || group.options.ranks > settings.world()) return std::nullopt;
  return group;
}

}  // namespace

RunGroups::RunGroups(const Run& run, const std::vector<DeviceOpRecord>& ops, const Workload* workload) {
  const Settings& settings = run.settings;
  std::map<CommunicatorId, Seen> seen;
  std::map<UnitId, CommunicatorId> first_gather;
  for (const DeviceOpRecord& op : ops) {
    if (op.kind != DeviceOpRecord::Kind::collective) continue;
    Seen& own = seen[op.communicator];
    own.asked.insert({op.collective, op.bytes});
    own.kinds.insert(op.collective);
    if (!own.unit.valid()) own.unit = op.unit;
    if (op.unit.valid() && (!own.least.valid() || op.unit < own.least)) own.least = op.unit;
    if (op.collective == CollectiveKind::all_gather) first_gather.try_emplace(op.unit, op.communicator);
  }
  // The root, or the embedding, has no experts.
  UnitId first_unit;
  for (const auto& [communicator, own] : seen)
    if (own.least.valid() && (!first_unit.valid() || own.least < first_unit)) first_unit = own.least;
  const std::vector<Asked> asked = workload == nullptr ? std::vector<Asked>{} : asked_in(*workload);
  const auto group_of = [&](CommunicatorId communicator, const Seen& own) -> std::optional<RunGroup> {
    for (std::size_t g = 0; g < asked.size(); ++g) {
      if (workload->process_groups[g].of_shards || !covers(asked[g], own.asked)) continue;
      const ProcessGroup group = on_mesh(workload->process_groups[g], workload->settings, settings);
      return RunGroup{program_group(group, settings), group.stride};
    }
    const std::uint32_t inner = settings.tensor_parallel;
    const bool shards =
        own.kinds.contains(CollectiveKind::all_gather) || own.kinds.contains(CollectiveKind::reduce_scatter);
    const bool reduces = !shards && own.kinds == std::set{CollectiveKind::all_reduce};
    // The maxima of float8 weights, of which the root, or the embedding, has none.
    if (reduces && settings.float8_all_gather && own.least != first_unit) return RunGroup{shard_group(settings), inner};
    if (reduces && settings.replicate > 1) return RunGroup{replicate_group(settings), settings.shard_ranks() * inner};
    if (!shards) return std::nullopt;
    const std::uint32_t together = kept_together(run, own.unit);
    if (together > 0 && own.kinds == std::set{CollectiveKind::all_gather} && first_gather.at(own.unit) != communicator)
      return RunGroup{post_forward_group(settings, together), inner};
    if (settings.expert_parallel > 1 && own.least != first_unit)
      return RunGroup{expert_shard_group(settings), settings.expert_parallel * inner};
    return RunGroup{shard_group(settings), inner};
  };
  for (const auto& [communicator, own] : seen) {
    auto group = group_of(communicator, own);
    groups_[communicator] = group ? checked(std::move(*group), settings) : std::nullopt;
  }
}

std::optional<RunGroup> RunGroups::of(const DeviceOpRecord& collective) const {
  const auto found = groups_.find(collective.communicator);
  return found == groups_.end() ? std::nullopt : found->second;
}

}  // namespace foreshard::sim
