#include "core/settings/setting_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard {

Result<void> check_is_text(const Settings& settings, std::string_view key, std::string_view text) {
  std::string wanted_key(key);
  std::replace(wanted_key.begin(), wanted_key.end(), '-', '_');
  for (const auto& [name, json] : setting_options(settings)) {
    if (name != wanted_key) continue;
    const auto meant = parse_ordered_json_text(json);
    std::string wanted;
    if (meant.is_number()) wanted = "a number";
    if (meant.is_boolean()) wanted = "true or false";
    if (meant.is_object() && text.starts_with('{')) wanted = "an object";
    if (!wanted.empty())
      return fail(ErrorKind::input, fmt::format("{} is needed, this is the text {}", wanted, json_quoted(text)), {},
                  "write it without quotes");
  }
  return {};
}

}  // namespace foreshard
