#include "cli/reports/plan_command.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {
namespace {

/// A JSON value's text as an option takes it.
std::string option_value(const std::string& json) {
  const nlohmann::ordered_json value = parse_ordered_json_text(json);
  return value.is_string() ? value.get<std::string>() : json;
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) c == '\'' ? out.append("'\\''") : out.append(1, c);
  return out + '\'';
}

std::string plan_command(const std::string& source, const std::string& options, const Settings& from,
                         const Settings& to) {
  std::string out = "foreshard plan " + shell_word(source);
  if (!options.empty()) out += ' ' + options;
  const auto before = setting_options(from);
  const auto after = setting_options(to);
  const std::span<const SettingOption> table = setting_table();  // in the order of options()
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (after[i] == before[i]) continue;
    const std::string word = shell_word(option_value(after[i].second));
    out += ' ' + table[i].option(table[i].form == SettingForm::json ? fmt::format("<(echo {})", word) : word);
  }
  return out;
}

}  // namespace foreshard::cli
