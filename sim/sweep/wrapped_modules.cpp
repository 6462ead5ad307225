#include "sim/sweep/wrapped_modules.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

/// "norm, output" as paths.
std::vector<std::string> paths_of(const std::string& names) {
  std::vector<std::string> out;
  for (std::size_t from = 0; from <= names.size();) {
    const std::size_t comma = std::min(names.find(", ", from), names.size());
    out.push_back("model." + names.substr(from, comma - from));
    from = comma + 2;
  }
  return out;
}

}  // namespace

bool root_has_weights(const Workload& workload) {
  if (workload.units.empty()) return false;
  const std::vector<Parameter>& root = workload.units.front().parameters;
  return std::any_of(root.begin(), root.end(), [](const Parameter& p) { return p.shape.size() > 1; });
}

ModuleNames wrapped_modules(WorkloadSource& source, const Settings& settings) {
  ModuleNames modules;
  if (!settings.fully_shard_embedding_and_head) return modules;
  const auto workload = source.at(settings);
  if (!workload || (*workload)->units.size() < 3) return modules;
  modules.embedding = paths_of((*workload)->units[1].name).front();
  modules.head = paths_of((*workload)->units.back().name);
  return modules;
}

}  // namespace foreshard::sim
