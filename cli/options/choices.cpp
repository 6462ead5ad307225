#include "cli/options/choices.hpp"

#include "cli/options/options.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {

void ChoiceOptions::add_to(CLI::App& app) {
  for (const Choice& choice : choice_table()) {
    given_.push_back(std::make_unique<Given>());
    Given& given = *given_.back();
    given.key = std::string(choice.key);
    given.is_file = choice.form == ChoiceForm::json;
    given.repeatable = choice.repeatable;
    CLI::Option* option = nullptr;
    if (choice.form == ChoiceForm::flag) {
      const std::string name = choice.option();
      option = app.add_flag_function(
          name + ",!--no-" + name.substr(2),
          [&given](std::int64_t count) { given.values.emplace_back(count > 0 ? "true" : "false"); },
          std::string(choice.help));
    } else {
      option = app.add_option_function<std::vector<std::string>>(
          choice.option(),
          [&given](const std::vector<std::string>& texts) {
            given.values.insert(given.values.end(), texts.begin(), texts.end());
          },
          std::string(choice.help));
      option->expected(1)->type_name(std::string(choice.values));
      option->multi_option_policy(choice.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                    : CLI::MultiOptionPolicy::TakeLast);
    }
    option->group("Choices");
  }
}

Result<Settings> ChoiceOptions::apply(Settings settings) const {
  for (const auto& given : given_) {
    for (std::size_t i = given->repeatable || given->values.empty() ? 0 : given->values.size() - 1;
         i < given->values.size(); ++i) {
      std::string value = given->values[i];
      if (given->is_file) {
        const auto text = read_text(value);
        if (!text) return tl::unexpected(text.error());
        value = *text;
      }
      auto set = set_choice(settings, given->key, value);
      if (!set) {
        Error error = set.error();
        if (given->is_file) error.where = given->values[i];
        return tl::unexpected(error);
      }
    }
  }
  const auto consistent = check(settings);
  if (!consistent) return tl::unexpected(consistent.error());
  return settings;
}

}  // namespace foreshard::cli
