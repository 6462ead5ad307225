#include "cli/options/range_options.hpp"

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {

void RangeOptions::add_to(OptionSet& set) {
  for (const SettingOption& setting : setting_table()) {
    given_.push_back(std::make_unique<Given>());
    Given& given = *given_.back();
    given.key = std::string(setting.key);
    given.is_file = setting.form == SettingForm::json;
    const bool flag = setting.form == SettingForm::flag;
    set.add_texts(
           setting.option(),
           [&given, flag](const std::vector<std::string>& texts) {
             given.texts.insert(given.texts.end(), texts.begin(), texts.end());
             // The option alone; CLI11 gives an empty text, or none.
             if (flag && (texts.empty() || texts.back().empty())) given.texts.emplace_back("true");
             if (flag) std::erase(given.texts, std::string());
           },
           std::string(setting.help), flag ? Values::all_or_nothing : Values::all)
        .type_name(std::string(setting.values))
        .suggest(setting.words)
        .group("Settings: lists (a,b) and ranges (1..4) of");
    // As plan writes it, whose lines are copied here; help has the option itself, with its two values.
    if (flag)
      set.add_flag(
             setting.option("false"), [&given](bool) { given.texts.emplace_back("false"); }, "")
          .group("");
  }
}

Result<GivenRanges> RangeOptions::ranges() const {
  GivenRanges out;
  for (const auto& given : given_) {
    for (const std::string& text : given->texts) {
      std::string value = text;
      if (given->is_file) {
        auto content = read_json_file(text);
        FORESHARD_TRY(content);
        value = std::move(*content);
      }
      auto values = parse_range(given->key, value);
      if (!values) {
        Error error = values.error();
        return tl::unexpected(given->is_file ? of_file(std::move(error), text) : error);
      }
      for (const std::string& again : add_values(out.ranges, given->key, *values))
        out.repeated.push_back(given->is_file ? given->key + " " + text : given->key + " " + again);
      if (given->is_file)
        for (const std::string& one : *values) out.files.try_emplace({given->key, one}, text);
    }
  }
  return out;
}

}  // namespace foreshard::cli
