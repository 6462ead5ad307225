// The options of Settings as options of a verb: `plan`, `sweep` and `run` share them word for word.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/option_set.hpp"
#include "core/base/error.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::cli {

/// Collects what was given for each row of settings_table.hpp; applies it to the settings of a source.
class SettingOptions {
 public:
  /// Adds one option a row, in a help group of its own. `this` must outlive the parsing. `unused`: the key of a setting
  /// that the verb has no use for: help does not list it, and the verb says why it is refused.
  void add_to(OptionSet& set, std::string_view unused = {});

  /// `settings` with everything that was given set, in table order, and checked. Errors name the option.
  [[nodiscard]] Result<Settings> apply(Settings settings) const;
  [[nodiscard]] bool given(std::string_view key) const;
  /// The error with the file in its place, where that names a setting whose value was read from one.
  [[nodiscard]] Error with_file(Error error) const;

 private:
  struct Given {
    std::string key;
    std::string option = {};          ///< "--key"
    bool is_file = false;             ///< the text names a file that holds the value
    std::vector<std::string> values;  ///< as typed; one unless the row is repeatable
    bool repeatable = false;
  };
  /// Refuses (usage) two values of one unit.
  [[nodiscard]] Result<void> check_once() const;
  std::vector<std::unique_ptr<Given>> options_;
};

}  // namespace foreshard::cli
