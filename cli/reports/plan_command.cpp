#include "cli/reports/plan_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"
#include "core/settings/settings_table.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::cli {

std::string model_title(const std::string& name, const std::string& model_options) {
  return model_options.empty() ? name : name + ' ' + model_options;
}

std::string left_out_line(const std::string& what) {
  return "not planned: " + what;
}

std::string option_value(const std::string& json) {
  const nlohmann::ordered_json value = parse_ordered_json_text(json);
  return value.is_string() ? value.get<std::string>() : json;
}

std::string size_value(Bytes bytes) {
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : std::to_string(bytes);
}

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
  const traces::SourceRequest& of = source.source;
  std::string out = traces::model_options(of);
  const auto add = [&](const std::string& option, const std::string& value) {
    out += (out.empty() ? "" : " ") + option + ' ' + shell_word(value);
  };
  if (of.lowering) add("--lowering", std::string(foreshard::name(*of.lowering)));
  if (!source.machine.empty()) add("--machine", source.machine);
  if (!source.fabric.empty()) add("--fabric", source.fabric);
  if (!source.topology.empty()) add("--topology", source.topology);
  return out;
}

}  // namespace foreshard::cli
