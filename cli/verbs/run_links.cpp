#include "cli/verbs/run_links.hpp"

#include <algorithm>

#include "cli/options/source_options.hpp"
#include "cli/reports/unlike_links.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "sim/link_load/link_loads.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {

Result<std::optional<RunLinks>> links_of(const Run& run, const Workload* workload, const std::string& machine,
                                         Console& console) {
  auto profile = machine_of_run(machine, run);
  if (!profile && machine.empty()) {
    console.note("no links: " + profile.error().text());
    return std::nullopt;
  }
  FORESHARD_TRY(profile);
  put_unlike_links(run, *profile);
  return RunLinks{sim::link_loads(run, workload, *profile), machine.empty() ? machine_note(run.info.machine) : "",
                  unlike_links_notes(run, *profile)};
}

Result<std::optional<RunLinks>> links_of(const Run& run, const std::string& machine, Console& console) {
  const auto collective = [](const DeviceOpRecord& op) { return op.kind == DeviceOpRecord::Kind::collective; };
  if (run.workload_json.empty() || std::none_of(run.device_ops.begin(), run.device_ops.end(), collective))
    return links_of(run, nullptr, machine, console);
  const auto workload = traces::stored_workload(run.workload_json, run.info.kind == RunKind::executed, run.info.name);
  return links_of(run, workload ? &*workload : nullptr, machine, console);
}

}  // namespace foreshard::cli
