#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/pytorch/about.hpp"

namespace foreshard::traces {
namespace {

using Json = nlohmann::ordered_json;

Json unit_json(const Unit& unit) {
  Json parameters = Json::array();
  for (const Parameter& parameter : unit.parameters) {
    Json row{{"name", parameter.name}, {"shape", parameter.shape}, {"dtype", name(parameter.dtype)}};
    if (!parameter.requires_grad) row["requires_grad"] = false;
    if (parameter.expert_parallel) row["expert_parallel"] = true;
    if (parameter.shard_dim != 0) row["shard_dim"] = parameter.shard_dim;
    parameters.push_back(std::move(row));
  }
  return {{"unit", unit.name}, {"parameters", std::move(parameters)}};
}

}  // namespace

std::string about_json(const About& about) {
  Json json;
  json["schema"] = 1;
  json["torch"] = about.torch.empty() ? about.settings.pytorch : about.torch;
  if (!about.nccl.empty()) json["nccl"] = about.nccl;
  if (!about.gpu.empty()) json["gpu"] = about.gpu;
  if (about.sm_count != 0) json["sm_count"] = about.sm_count;
  Json settings;
  for (const auto& [key, value] : setting_options(about.settings)) {
    if (key == "pytorch") continue;
    (is_top_level(key) ? json : settings)[key] = parse_ordered_json_text(value);
  }
  json["settings"] = std::move(settings);
  if (!about.optimizer_param_groups.empty()) json["optimizer_param_groups"] = about.optimizer_param_groups;
  Json units = Json::array();
  for (const Unit& unit : about.units) units.push_back(unit_json(unit));
  json["units"] = std::move(units);
  // One line a parameter would be long, one line a file unreadable: one line a unit.
  std::string text = "{\n";
  std::size_t left = json.size();
  for (const auto& [key, value] : json.items()) {
    text += "  " + json_quoted(key) + ": ";
    if (key != "units") {
      text += json_text(value);
    } else {
      text += "[";
      for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "\n    " : ",\n    ") + json_text(value[i]);
      text += "\n  ]";
    }
    text += --left > 0 ? ",\n" : "\n";
  }
  return text + "}\n";
}

}  // namespace foreshard::traces
