#include "sim/sweep/wrapped_modules.hpp"

#include <algorithm>
#include <optional>

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

/// "model.lm.layers" of a unit "lm.layers.3", or of one that begins with it; none: no member of a list.
std::optional<std::string> list_of(const std::string& unit) {
  const std::string module = unit.substr(0, unit.find(", "));
  const std::size_t dot = module.rfind('.');
  if (dot == std::string::npos || dot + 1 == module.size()) return std::nullopt;
  if (module.find_first_not_of("0123456789", dot + 1) != std::string::npos) return std::nullopt;
  return "model." + module.substr(0, dot);
}

/// "mlp.experts" of experts' parameters such as "layers.3.mlp.experts.down_proj" where `blocks` is "model.layers"; they
/// are a unit of their own or a group of their block's. None: the model has none.
std::optional<std::string> experts_of(const Workload& workload, const std::string& blocks) {
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters) {
      if (!parameter.expert_parallel) continue;
      const std::string path = "model." + parameter.name;
      if (!path.starts_with(blocks + ".")) continue;
      const std::size_t begin = path.find('.', blocks.size() + 1) + 1;
      return path.substr(begin, path.rfind('.') - begin);
    }
  return std::nullopt;
}

}  // namespace

bool root_has_weights(const Workload& workload) {
  if (workload.units.empty()) return false;
  const std::vector<Parameter>& root = workload.units.front().parameters;
  return std::any_of(root.begin(), root.end(), [](const Parameter& p) { return p.shape.size() > 1; });
}

ModuleNames wrapped_modules(const Workload& workload, const Settings& settings) {
  ModuleNames modules;
  std::vector<std::string> lists;
  for (const Unit& unit : workload.units)
    if (auto list = list_of(unit.name); list && std::find(lists.begin(), lists.end(), *list) == lists.end())
      lists.push_back(std::move(*list));
  if (!lists.empty()) modules.blocks = std::move(lists);
  for (const std::string& blocks : modules.blocks)
    if (const auto experts = experts_of(workload, blocks)) {
      modules.experts = *experts;
      break;
    }
  if (!settings.fully_shard_embedding_and_head || workload.units.size() < 3) return modules;
  modules.embedding = paths_of(workload.units[1].name).front();
  modules.head = paths_of(workload.units.back().name);
  return modules;
}

ModuleNames wrapped_modules(WorkloadSource& source, const Settings& settings) {
  const auto workload = source.at(settings);
  return workload ? wrapped_modules(**workload, settings) : ModuleNames{};
}

}  // namespace foreshard::sim
