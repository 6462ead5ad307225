#include "cli/reports/store_run.hpp"

#include "cli/terminal/version.hpp"
#include "traces/store/store.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {

Result<void> store_run(const Json& json, const Workload& workload, const std::string& path, bool force, Run& run) {
  for (const auto& [key, value] : json.items())
    if (key != "schema" && key != "verb" && key != "settings" && key != "source") run.results[key] = value.dump();
  run.workload_json = traces::to_json(workload);
  run.info.foreshard_version = version_number();
  return traces::write_run(run, path, {.force = force});
}

}  // namespace foreshard::cli
