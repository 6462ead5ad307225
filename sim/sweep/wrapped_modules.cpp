#include "sim/sweep/wrapped_modules.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

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

/// "model.lm.layers" of a unit "lm.layers.3", or of one inside of it or that begins with it; none: of no list's member.
std::optional<std::string> list_of(const std::string& unit) {
  const std::string module = unit.substr(0, unit.find(", "));
  for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
    const std::string member = module.substr(dot + 1, module.find('.', dot + 1) - dot - 1);
    if (!member.empty() && member.find_first_not_of("0123456789") == std::string::npos)
      return "model." + module.substr(0, dot);
  }
  return std::nullopt;
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

/// A unit's modules, and the block that all of them are of.
struct Placed {
  std::string list;                  ///< "model.layers"; empty: outside of any
  std::string block;                 ///< "layers.3"
  std::vector<std::string> modules;  ///< below the block, none of the block itself; else below the model
};

Placed place(const std::string& unit, const std::vector<std::string>& lists) {
  Placed out;
  std::vector<std::string> modules = paths_of(unit);  // "model.layers.3.wq"
  for (const std::string& list : lists) {
    const std::string& first = modules.front();
    if (!first.starts_with(list + ".")) continue;
    const std::size_t end = first.find('.', list.size() + 1);
    const std::string block = first.substr(0, end);
    const auto inside = [&](const std::string& m) { return m == block || m.starts_with(block + "."); };
    if (!std::all_of(modules.begin(), modules.end(), inside)) continue;
    out = {list, block, {}};
    for (const std::string& m : modules)
      if (m != block) out.modules.push_back(m.substr(block.size() + 1));
    return out;
  }
  for (const std::string& m : modules) out.modules.push_back(m.substr(std::string("model.").size()));
  return out;
}

/// Units other than the blocks of `modules.blocks`.
void add_other_units(const Workload& workload, ModuleNames& modules) {
  std::map<std::string, std::vector<std::vector<std::string>>> inside;  // by block
  std::set<std::string> wrapped;
  for (std::size_t u = 1; u < workload.units.size(); ++u) {
    Placed unit = place(workload.units[u].name, modules.blocks);
    if (unit.list.empty())
      modules.outside.push_back(std::move(unit.modules));
    else if (unit.modules.empty())
      wrapped.insert(unit.block);
    else
      inside[unit.block].push_back(std::move(unit.modules));
  }
  if (!inside.empty()) modules.inside = inside.begin()->second;
  modules.wraps_blocks = inside.empty() || !wrapped.empty();
  const bool alike = std::all_of(inside.begin(), inside.end(), [&](const auto& block) {
    return block.second == modules.inside && wrapped.contains(block.first) == modules.wraps_blocks;
  });
  const bool all = inside.empty() || wrapped.empty() || wrapped.size() == inside.size();
  // A module around the blocks ("model" of "model.layers") is wrapped behind them.
  const bool around = std::any_of(modules.outside.begin(), modules.outside.end(), [&](const auto& unit) {
    return std::any_of(unit.begin(), unit.end(), [&](const std::string& module) {
      return std::any_of(modules.blocks.begin(), modules.blocks.end(),
                         [&](const std::string& list) { return list.starts_with("model." + module + "."); });
    });
  });
  // A unit inside another one is wrapped before it.
  const auto deeper = [](const auto& a, const auto& b) {
    const auto depth = [](const auto& unit) { return std::count(unit.front().begin(), unit.front().end(), '.'); };
    return depth(a) > depth(b);
  };
  std::stable_sort(modules.inside.begin(), modules.inside.end(), deeper);
  std::stable_sort(modules.outside.begin(), modules.outside.end(), deeper);
  if (alike && all && !around) return;
  modules.inside.clear();
  modules.outside.clear();
  modules.wraps_blocks = true;
  for (std::size_t u = 1; u < workload.units.size(); ++u)
    modules.units.push_back(place(workload.units[u].name, {}).modules);
  std::stable_sort(modules.units.begin(), modules.units.end(), deeper);
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
  if (!lists.empty()) modules.blocks = lists;
  for (const std::string& blocks : modules.blocks)
    if (const auto experts = experts_of(workload, blocks)) {
      modules.experts = *experts;
      break;
    }
  if (!settings.fully_shard_embedding_and_head || workload.units.size() < 3) {
    if (settings.units_per_group == 1 && settings.expert_parallel == 1 && !lists.empty())
      add_other_units(workload, modules);
    return modules;
  }
  modules.embedding = paths_of(workload.units[1].name).front();
  modules.head = paths_of(workload.units.back().name);
  return modules;
}

ModuleNames wrapped_modules(WorkloadSource& source, const Settings& settings) {
  const auto workload = source.at(settings);
  return workload ? wrapped_modules(**workload, settings) : ModuleNames{};
}

}  // namespace foreshard::sim
