#include "cli/options/range_options.hpp"

#include "cli/options/options.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {

void RangeOptions::add_to(CLI::App& app) {
  for (const SettingOption& setting : setting_table()) {
    given_.push_back(std::make_unique<Given>());
    Given& given = *given_.back();
    given.key = std::string(setting.key);
    given.is_file = setting.form == SettingForm::json;
    const bool flag = setting.form == SettingForm::flag;
    CLI::Option* option = app.add_option_function<std::vector<std::string>>(
        setting.option(),
        [&given, flag](const std::vector<std::string>& texts) {
          given.texts.insert(given.texts.end(), texts.begin(), texts.end());
          // The option alone; CLI11 gives an empty text, or none.
          if (flag && (texts.empty() || texts.back().empty())) given.texts.emplace_back("true");
          if (flag) std::erase(given.texts, std::string());
        },
        std::string(setting.help));
    option->type_name(std::string(setting.values))->group("Choices: lists (a,b) and ranges (1..4) of");
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    option->allow_extra_args(false);
    flag ? option->type_size(1)->expected(0, 1) : option->type_size(1)->expected(1);
  }
}

Result<GivenRanges> RangeOptions::ranges() const {
  GivenRanges out;
  for (const auto& given : given_) {
    for (const std::string& text : given->texts) {
      std::string value = text;
      if (given->is_file) {
        const auto content = read_text(text);
        FORESHARD_TRY(content);
        value = *content;
      }
      auto values = parse_range(given->key, value);
      if (!values) {
        Error error = values.error();
        if (given->is_file) error.where = text;
        return tl::unexpected(error);
      }
      add_values(out.ranges, given->key, *values);
      if (given->is_file)
        for (const std::string& one : *values) out.files.try_emplace({given->key, one}, text);
    }
  }
  return out;
}

}  // namespace foreshard::cli
