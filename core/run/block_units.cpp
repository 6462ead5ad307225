#include "core/run/block_units.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace foreshard {
namespace {

/// Units by the paths of modules that are theirs.
class Paths {
 public:
  explicit Paths(const Run& run) {
    for (std::uint32_t k = 0; k < run.units.size(); ++k)
      for (const Parameter& parameter : run.units[k].parameters)
        add_modules(parameter.name, run.units[k].name, UnitId{k});
    for (std::uint32_t k = 0; k < run.units.size(); ++k) units_.insert_or_assign(run.units[k].name, UnitId{k});
  }

  [[nodiscard]] UnitId of(std::string_view module) const {
    for (;;) {
      if (const auto found = units_.find(std::string(module)); found != units_.end()) return found->second;
      const std::size_t dot = module.rfind('.');
      if (dot == std::string_view::npos) return {};
      module = module.substr(0, dot);
    }
  }

 private:
  /// The module that has the parameter, and those around it up to the unit's. One around several units is the root's
  /// where that has a parameter there, else none's.
  void add_modules(std::string_view parameter, std::string_view unit_name, UnitId unit) {
    for (std::size_t dot = parameter.rfind('.'); dot != std::string_view::npos; dot = parameter.rfind('.')) {
      parameter = parameter.substr(0, dot);
      if (parameter == unit_name) return;
      UnitId& known = units_.try_emplace(std::string(parameter), unit).first->second;
      if (known != unit && known != kRootUnit) known = unit == kRootUnit ? unit : UnitId{};
    }
  }

  std::map<std::string, UnitId, std::less<>> units_;
};

}  // namespace

std::vector<UnitId> block_units(const Run& run) {
  const Paths paths(run);
  std::vector<UnitId> of_parameter;
  for (std::uint32_t k = 0; k < run.units.size(); ++k)
    of_parameter.insert(of_parameter.end(), run.units[k].parameters.size(), UnitId{k});
  std::map<std::uint32_t, UnitId> of_label;
  std::vector<UnitId> out;
  for (const BlockRecord& block : run.blocks) {
    UnitId unit = block.unit;
    if (!unit.valid() && block.parameter.value < of_parameter.size()) unit = of_parameter[block.parameter.value];
    if (!unit.valid() && block.module.valid() && block.category != MemoryCategory::workspaces) {
      const auto [place, fresh] = of_label.try_emplace(block.module.value);
      if (fresh) place->second = paths.of(run.labels.text(block.module));
      unit = place->second;
    }
    out.push_back(unit);
  }
  return out;
}

}  // namespace foreshard
