#include "cli/reports/plan_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"
#include "core/settings/settings_table.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::cli {
namespace {

/// A JSON value's text as an option takes it.
std::string option_value(const std::string& json) {
  const nlohmann::ordered_json value = parse_ordered_json_text(json);
  return value.is_string() ? value.get<std::string>() : json;
}

}  // namespace

std::string plan_command(const std::string& source, const std::string& options, const Settings& from,
                         const Settings& to, const std::string& file) {
  std::string out = "foreshard plan " + shell_word(source);
  if (!options.empty()) out += ' ' + options;
  const auto before = setting_options(from);
  const auto after = setting_options(to);
  const std::span<const SettingOption> table = setting_table();  // in the order of options()
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (after[i] == before[i]) continue;
    const std::string word = shell_word(option_value(after[i].second));
    const bool is_file = table[i].form == SettingForm::json;
    const std::string holds = file.empty() ? fmt::format("<(echo {})", word) : shell_word(file);
    out += ' ' + table[i].option(is_file ? holds : word);
  }
  return out;
}

std::string source_words(const SourceOptions& source) {
  std::string out;
  const auto add = [&](const std::string& option, const std::string& value) {
    out += (out.empty() ? "" : " ") + option + (value.empty() ? "" : ' ' + shell_word(value));
  };
  const traces::SourceRequest& of = source.source;
  if (of.dim) add("--dim", std::to_string(*of.dim));
  if (of.layers) add("--layers", std::to_string(*of.layers));
  if (of.dropout) add("--dropout", fmt::format("{}", *of.dropout));
  if (of.compiled) add("--compile", {});
  if (!of.frozen.empty()) add("--freeze", fmt::format("{}", fmt::join(of.frozen, ",")));
  if (of.lora.rank > 0) add("--lora", std::to_string(of.lora.rank));
  if (!of.lora.targets.empty()) add("--lora-targets", fmt::format("{}", fmt::join(of.lora.targets, ",")));
  if (of.lowering) add("--lowering", std::string(foreshard::name(*of.lowering)));
  if (!source.machine.empty()) add("--machine", source.machine);
  if (!source.fabric.empty()) add("--fabric", source.fabric);
  if (!source.topology.empty()) add("--topology", source.topology);
  return out;
}

}  // namespace foreshard::cli
