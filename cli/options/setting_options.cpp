#include "cli/options/setting_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/sweep/ranges.hpp"

namespace foreshard::cli {

namespace {

constexpr const char* kHeading = "Settings (default: as a run store or workload file has it; else, as said, a model's)";

/// "; default: implicit", of a model: `value` is JSON.
std::string default_words(const SettingOption& setting, std::string value) {
  std::erase(value, '"');
  if (value == "null" && setting.form == SettingForm::count) return "; default: the model's";  // batch and seq
  return "; default: " + (value.empty() || value == "null" || value.starts_with("{") ? "none" : value);
}

}  // namespace

void SettingOptions::add_to(OptionSet& set, std::string_view unused) {
  const auto defaults = setting_options(Settings{});  // in the order of the table
  for (const SettingOption& setting : setting_table()) {
    const std::string& value = defaults[options_.size()].second;
    options_.push_back(std::make_unique<Given>());
    Given& given = *options_.back();
    given.key = std::string(setting.key);
    given.option = setting.option();
    given.is_file = setting.form == SettingForm::json;
    given.repeatable = setting.repeatable;
    const std::string name = setting.option(), help = std::string(setting.help) + default_words(setting, value);
    if (setting.form == SettingForm::flag) {
      set.add_flag(
             name + ",!--no-" + name.substr(2), [&given](bool on) { given.values.emplace_back(on ? "true" : "false"); },
             help)
          .group(kHeading);
      continue;
    }
    set.add_texts(
           name,
           [&given](const std::vector<std::string>& texts) {
             given.values.insert(given.values.end(), texts.begin(), texts.end());
           },
           help, setting.repeatable ? Values::all : Values::once)
        .type_name(std::string(setting.values))
        .suggest(setting.words)
        .group(setting.key == unused ? "" : kHeading);
  }
}

Result<void> SettingOptions::check_once() const {
  for (const auto& given : options_) {
    std::set<std::string> seen;
    for (const std::string& value : given->values) {
      const std::string of = value.substr(0, value.rfind('='));  // "UNIT=VALUE"
      if (given->repeatable && !seen.insert(of).second)
        return fail(ErrorKind::usage, fmt::format("{} is given twice of '{}'", given->option, of), given->option,
                    "say one of the two");
    }
  }
  return {};
}

Result<Settings> SettingOptions::apply(Settings settings) const {
  FORESHARD_TRY(check_once());
  for (const auto& given : options_) {
    for (const std::string& typed : given->values) {
      std::string value = typed;
      if (given->is_file) {
        auto text = read_json_file(value);
        FORESHARD_TRY(text);
        value = std::move(*text);
      }
      auto set = set_setting(settings, given->key, value);
      if (!set) {
        Error error = set.error();
        if (const auto list = parse_range(given->key, value); list && list->size() > 1)
          error.hint = fmt::format("one value is taken here, as in {} {}; `foreshard sweep` takes lists and ranges",
                                   given->option, list->front());
        return tl::unexpected(given->is_file ? of_file(std::move(error), typed) : error);
      }
    }
  }
  const auto consistent = check(settings);
  FORESHARD_TRY(consistent);
  return settings;
}

bool SettingOptions::given(std::string_view key) const {
  return std::any_of(options_.begin(), options_.end(),
                     [&](const auto& option) { return option->key == key && !option->values.empty(); });
}

Error SettingOptions::with_file(Error error) const {
  for (const auto& option : options_)
    if (option->is_file && !option->values.empty() && error.where.starts_with(option->key))
      error.where = option->values.back() + ", " + error.where;
  return error;
}

}  // namespace foreshard::cli
