// One table of every setting: its key, its option, its words and what it means.
//
// The same names serve the command line (`--forward-prefetch 2`), JSON output and input ("forward_prefetch": 2)
// and the about file that comes with a recording. A key has underscores; its option is the key with dashes
// behind "--". Adding a field to Settings means adding one row here.
//
// Pure; rows and results are in one fixed order, that of struct Settings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/settings/settings_names.hpp"

namespace foreshard {

/// How a value is written, beside the row's words.
enum class SettingForm : std::uint8_t {
  flag = 0,   ///< true or false; the option alone means true
  count = 1,  ///< a whole number, at least `minimum`
  word = 2,   ///< one of the words, or a form that `values` describes
  text = 3,   ///< free text
  json = 4,   ///< a JSON object; the option takes the name of a file that holds it
};

/// A number that a setting takes, for who wrote something else.
struct SettingNumber {
  std::string_view range;  ///< "a whole number from 1"
  std::string_view example;
};
inline constexpr SettingNumber kCounted{"a whole number from 1", "2"};

struct SettingOption {
  std::string_view key;     ///< "forward_prefetch"
  std::string_view values;  ///< for help: "implicit|N"
  std::string_view help;    ///< one sentence without a full stop
  SettingForm form = SettingForm::word;
  std::span<const std::string_view> words;  ///< fixed words that are accepted; may be empty
  bool repeatable = false;                  ///< the option may be given several times, each adds
  /// The number that `values` calls N or X; none of flags, text and files.
  SettingNumber number = form == SettingForm::count ? kCounted : SettingNumber{};

  /// "--forward-prefetch"
  [[nodiscard]] std::string option() const;
  /// "--forward-prefetch 2", "--no-unshard-async": what sets it to `value`, which is a shell's word.
  [[nodiscard]] std::string option(std::string_view value) const;
};

/// All rows.
[[nodiscard]] std::span<const SettingOption> setting_table();

/// Sets one field from text. `key` may have dashes or underscores. `value` is an option's word or a JSON
/// value's text: quotes around it are dropped, and null means none where none is allowed. Errors (usage)
/// name the key, the value, what is accepted, and the nearest known word or a value that would do.
///
/// Beyond its words: `release` also takes "all-gather=KIND,reduce-scatter=KIND"; `reshard_of_unit` takes
/// "UNIT=VALUE" (adds one) or a JSON object (replaces all); `prefetch_lists` takes
/// {"forward": {"layers.0": ["layers.1"]}, "backward": {…}}; `pytorch` takes any patch release of a known
/// version ("2.11.0+cu130" is 2.11).
[[nodiscard]] Result<void> set_setting(Settings& settings, std::string_view key, std::string_view value);

/// Every setting as (key, JSON value text), in table order. set_setting() of each pair gives equal settings.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> setting_options(const Settings& settings);

/// Whether the options can hold together; the first contradiction as a usage error. Rejects what
/// fully_shard and init_device_mesh reject: a replicate size that does not divide the world, a
/// reshard_after_forward that does not divide the shard ranks, zero of anything that is counted.
[[nodiscard]] Result<void> check(const Settings& settings);

/// What is allowed but outside what was checked against PyTorch, or likely not meant: one sentence each.
[[nodiscard]] std::vector<std::string> warnings(const Settings& settings);

/// "3", or with eager steps before "4+3".
[[nodiscard]] std::string name(const CudaGraph& graph);

/// "true", "false" or a number.
[[nodiscard]] std::string name(const Reshard& reshard);

}  // namespace foreshard
