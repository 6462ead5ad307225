#include "cli/verbs/run_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/options/source_options.hpp"
#include "cli/reports/unlike_links.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "core/straggler/rank_members.hpp"
#include "sim/link_load/link_loads.hpp"
#include "sim/network/fabric.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {

namespace {

/// The rank whose kept ops are `rank`'s too; none: no such timeline was kept.
std::optional<std::uint32_t> kept_alike(const Run& run, std::uint32_t rank) {
  for (const RankRecord& one : run.ranks)
    if (one.rank == rank) return rank;
  for (const RankMembers& group : rank_members(run))
    for (const RankRun& members : group.members)
      if (group.kept && rank >= members.first && (rank - members.first) % members.stride == 0 &&
          (rank - members.first) / members.stride < members.count)
        return group.first;
  return std::nullopt;
}

/// Its lowest rank, whose own adapter it is.
std::uint32_t rank_on(const sim::SlowAdapter& slow, const Run& run, const sim::MachineProfile& machine) {
  const std::uint32_t gpus = run.settings.gpus;
  std::uint32_t local = 0;
  while (local + 1 < gpus && sim::adapter_of(machine.network, machine.links.gpus, local) != slow.adapter) ++local;
  return slow.node * gpus + local;
}

/// What ranks on slow links put on these, but for the one that is shown anyway.
std::vector<SlowLinkLoad> slow_loads(const Run& run, const Workload* workload, const sim::MachineProfile& machine) {
  std::vector<SlowLinkLoad> out;
  const auto add = [&](std::string name, std::uint32_t rank, LinkClass link) {
    const auto alike = kept_alike(run, rank);
    if (!alike || rank == run.ranks.front().rank || rank >= run.settings.world()) return;
    for (LinkLoad& load : sim::link_loads_of_rank(run, workload, machine, rank, *alike).links)
      if (load.link == link) out.push_back({std::move(name), rank, std::move(load)});
  };
  for (const sim::SlowAdapter& slow : machine.network.slow_adapters)
    add(fmt::format("adapter {}.{}", slow.node, slow.adapter), rank_on(slow, run, machine), LinkClass::adapter);
  for (const sim::SlowLink& slow : machine.links.slow_links) add("NVLink", slow.rank, LinkClass::nvlink);
  return out;
}

}  // namespace

Result<std::optional<RunLinks>> links_of(const Run& run, const Workload* workload, const std::string& machine,
                                         Console& console) {
  // What another machine's links carry says nothing of this one's.
  if (machine.empty() && !machine_note(run.info.machine).empty()) {
    console.note(fmt::format("no links: the run's machine '{}' is not built in; --machine FILE gives its profile",
                             run.info.machine));
    return std::nullopt;
  }
  auto profile = machine_of_run(machine, run);
  if (!profile && machine.empty()) {
    console.note("no links: " + profile.error().text());
    return std::nullopt;
  }
  FORESHARD_TRY(profile);
  put_unlike_links(run, *profile);
  return RunLinks{sim::link_loads(run, workload, *profile), unlike_links_notes(run, *profile),
                  slow_loads(run, workload, *profile)};
}

Result<std::optional<RunLinks>> links_of(const Run& run, const std::string& machine, Console& console) {
  const auto collective = [](const DeviceOpRecord& op) { return op.kind == DeviceOpRecord::Kind::collective; };
  if (run.workload_json.empty() || std::none_of(run.device_ops.begin(), run.device_ops.end(), collective))
    return links_of(run, nullptr, machine, console);
  const auto workload = traces::stored_workload(run.workload_json, run.info.kind == RunKind::executed, run.info.name);
  return links_of(run, workload ? &*workload : nullptr, machine, console);
}

}  // namespace foreshard::cli
