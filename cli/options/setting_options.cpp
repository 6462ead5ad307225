#include "cli/options/setting_options.hpp"

#include "cli/options/options.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {

void SettingOptions::add_to(CLI::App& app) {
  for (const SettingOption& setting : setting_table()) {
    given_.push_back(std::make_unique<Given>());
    Given& given = *given_.back();
    given.key = std::string(setting.key);
    given.is_file = setting.form == SettingForm::json;
    given.repeatable = setting.repeatable;
    CLI::Option* option = nullptr;
    if (setting.form == SettingForm::flag) {
      const std::string name = setting.option();
      option = app.add_flag_function(
          name + ",!--no-" + name.substr(2),
          [&given](std::int64_t count) { given.values.emplace_back(count > 0 ? "true" : "false"); },
          std::string(setting.help));
    } else {
      option = app.add_option_function<std::vector<std::string>>(
          setting.option(),
          [&given](const std::vector<std::string>& texts) {
            given.values.insert(given.values.end(), texts.begin(), texts.end());
          },
          std::string(setting.help));
      option->expected(1)->type_name(std::string(setting.values));
      option->multi_option_policy(setting.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                     : CLI::MultiOptionPolicy::TakeLast);
    }
    option->group("Choices");
  }
}

Result<Settings> SettingOptions::apply(Settings settings) const {
  for (const auto& given : given_) {
    for (std::size_t i = given->repeatable || given->values.empty() ? 0 : given->values.size() - 1;
         i < given->values.size(); ++i) {
      std::string value = given->values[i];
      if (given->is_file) {
        const auto text = read_text(value);
        FORESHARD_TRY(text);
        value = *text;
      }
      auto set = set_setting(settings, given->key, value);
      if (!set) {
        Error error = set.error();
        if (given->is_file) error.where = given->values[i];
        return tl::unexpected(error);
      }
    }
  }
  const auto consistent = check(settings);
  FORESHARD_TRY(consistent);
  return settings;
}

}  // namespace foreshard::cli
