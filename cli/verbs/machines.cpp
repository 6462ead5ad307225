// `foreshard machines [NAME]`: the built-in profiles, or the constants of one with their sources.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "sim/machine/merge_profile.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {
namespace {

struct MachinesOptions {
  std::string name;
  bool json = false;
};

Result<int> list(const MachinesOptions& options, Console& console) {
  constexpr auto kRight = Table::Align::right;
  Table table({{"machine"}, {"SMs", kRight}, {"memory", kRight}, {"what it is"}});
  Json json = json_result("machines");
  json["machines"] = Json::array();
  for (const std::string_view name : sim::builtin_profile_names()) {
    const auto profile = sim::builtin_profile(name);
    FORESHARD_TRY(profile);
    table.row(
        {profile->name, std::to_string(profile->sm_count), format_bytes(profile->memory_total), profile->description});
    json["machines"].push_back({{"name", profile->name},
                                {"description", profile->description},
                                {"sm_count", profile->sm_count},
                                {"memory_bytes", profile->memory_total}});
  }
  if (options.json)
    print_json(console.out, json);
  else
    table.print(console.out);
  return kDone;
}

std::string number(const nlohmann::json& value) {
  return value.is_number_float() ? fmt::format("{:.10g}", value.get<double>()) : json_text(value);
}

/// "reference-runs, compute-probe", or "none: assumed"; empty where the profile does not say.
std::string fitted_on(const nlohmann::json& cell) {
  const auto it = cell.find("fitted_on");
  if (it == cell.end()) return {};
  if (it->is_string()) return it->get<std::string>();
  return fmt::format("{}", fmt::join(it->get<std::vector<std::string>>(), ", "));
}

/// Every constant below `node` as a row: its place, its value, what it was fitted on and its source.
void rows(const nlohmann::json& node, const std::string& place, Table& table) {
  if (!node.is_object()) return;
  for (const auto& [key, value] : node.items()) {
    const std::string path = place + "/" + key;
    if (!value.is_object()) continue;
    const std::string source = value.contains("source") ? value["source"].get<std::string>() : std::string();
    if (value.contains("value") && value.contains("unit")) {
      table.row({path, number(value["value"]), value["unit"].get<std::string>(), fitted_on(value), source});
    } else if (value.contains("source")) {
      for (const auto& [name, one] : value.items())
        if (name != "source" && name != "fitted_on")
          table.row({path + "/" + name, number(one), "", fitted_on(value), source});
    } else {
      rows(value, path, table);
    }
  }
}

Result<int> show(const MachinesOptions& options, Console& console) {
  const auto text = profile_text(options.name);
  FORESHARD_TRY(text);
  const auto profile = sim::parse_profile(*text, options.name);
  FORESHARD_TRY(profile);
  const auto whole = sim::complete_profile(*text, options.name);
  FORESHARD_TRY(whole);
  if (options.json) {
    print_json(console.out, Json(*whole));
    return kDone;
  }
  console.out << in_line(profile->name) << ": " << in_line(profile->description) << "\n\n";
  Table table({{"constant"}, {"value"}, {"unit"}, {"fitted on"}, {"source"}});
  nlohmann::json constants = *whole;
  constants.erase("measurements");
  rows(constants, "", table);
  for (const sim::CollectiveTable& t : profile->collectives)
    table.row({"/collectives", fmt::format("{} points, {} ranks", t.points.size(), t.ranks), "", "", t.source});
  table.print(console.out);
  return kDone;
}

}  // namespace

Action add_machines(OptionSet& set) {
  auto options = std::make_shared<MachinesOptions>();
  set.add_option("name", options->name, "a built-in profile's name or a profile file; default: list them")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_flag("--json", options->json, "as JSON; of one profile, the whole of it as --machine reads it");
  return
      [options](Console& console) { return options->name.empty() ? list(*options, console) : show(*options, console); };
}

}  // namespace foreshard::cli
