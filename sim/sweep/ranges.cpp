#include "sim/sweep/ranges.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/base/check.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard {
namespace {

constexpr std::string_view kUnitKey = "reshard_of_unit";
constexpr std::string_view kImbalanceKey = "router_imbalance";

const SettingOption* find_setting(std::string_view key) {
  for (const SettingOption& setting : setting_table())
    if (setting.key == key) return &setting;
  return nullptr;
}

/// Whether commas belong to the value.
bool taken_whole(const SettingOption& setting, std::string_view text) {
  if (setting.form == SettingForm::json) return true;
  if (setting.form == SettingForm::text) return setting.key != kUnitKey;
  return setting.key == "release" && text.find('=') != std::string_view::npos;
}

tl::unexpected<Error> wrong_range(std::string_view key, std::string_view part) {
  return fail(ErrorKind::usage,
              fmt::format("'{}' of {} is no range: a..b takes two whole numbers, the smaller one first", part, key), {},
              "as in 1..4, or implicit,1..4");
}

Result<void> add_part(std::string_view key, std::string_view part, std::vector<std::string>& values) {
  const std::size_t dots = part.find("..");
  if (dots == std::string_view::npos) {
    values.emplace_back(part);
    return {};
  }
  const auto first = parse_count(part.substr(0, dots));
  const auto last = parse_count(part.substr(dots + 2));
  if (!first || !last || *first > *last) return wrong_range(key, part);
  if (*last - *first >= kMaxValues)
    return fail(ErrorKind::usage, fmt::format("the range {} of {} has more than {} values", part, key, kMaxValues));
  for (std::uint32_t value = *first;; ++value) {
    values.push_back(std::to_string(value));
    if (value == *last) return {};
  }
}

/// The value as the settings hold it, whatever name it was given by: adamw-fused is adam-fused.
std::string held_value(std::string_view key, const std::string& value) {
  Settings scratch;
  if (!set_setting(scratch, key, value)) return value;
  const auto held = setting_options(scratch);
  const auto own = std::find_if(held.begin(), held.end(), [&](const auto& one) { return one.first == key; });
  return own == held.end() ? value : own->second;
}

/// Whether some points have their experts on several ranks.
bool splits_experts(std::span<const Range> ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [](const Range& range) {
    return range.key == "expert_parallel" &&
           std::any_of(range.values.begin(), range.values.end(), [](const std::string& value) { return value != "1"; });
  });
}

}  // namespace

Result<std::vector<std::string>> parse_range(std::string_view key, std::string_view text) {
  std::vector<std::string> values;
  const SettingOption* setting = find_setting(key);
  if (setting == nullptr || taken_whole(*setting, text)) {
    values.emplace_back(text);
  } else {
    std::string prefix;  // "UNIT=", which holds for every value after it
    if (const std::size_t equals = text.rfind('='); key == kUnitKey && equals != std::string_view::npos) {
      prefix = std::string(text.substr(0, equals + 1));
      text.remove_prefix(equals + 1);
    }
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t comma = std::min(text.find(',', begin), text.size());
      FORESHARD_TRY(add_part(key, text.substr(begin, comma - begin), values));
      begin = comma + 1;
    }
    for (std::string& value : values) value.insert(0, prefix);
  }
  Settings scratch;
  for (const std::string& value : values) FORESHARD_TRY(set_setting(scratch, key, value));
  return values;
}

std::vector<std::string> add_values(std::vector<Range>& ranges, std::string_view key,
                                    const std::vector<std::string>& values) {
  std::vector<std::string> repeated;
  std::map<std::string, std::map<std::string, std::string>> held;  // by unit and held_value(): the text that gave it
  const auto unit_of = [&](const std::string& value) {
    return key == kUnitKey ? value.substr(0, value.rfind('=')) : std::string();
  };
  for (const std::string& value : values) {
    auto range = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) {
      return r.key == key && unit_of(r.values.front()) == unit_of(value);
    });
    if (range == ranges.end()) range = ranges.insert(range, {std::string(key), {}});
    const auto [texts, is_first] = held.try_emplace(unit_of(value));
    if (is_first)
      for (const std::string& own : range->values) texts->second.emplace(held_value(key, own), own);
    const auto [same, is_new] = texts->second.emplace(held_value(key, value), value);
    if (is_new)
      range->values.push_back(value);
    else
      repeated.push_back(same->second == value ? value : fmt::format("{} (which is {})", value, same->second));
  }
  return repeated;
}

std::vector<Range> usual_ranges() {
  return {{"forward_prefetch", {"implicit", "1", "2"}},
          {"backward_prefetch", {"default", "1", "2"}},
          {"reshard_after_forward", {"true", "false"}},
          {"all_gather", {"nccl", "copy-engine"}}};
}

Result<std::size_t> count_points(std::span<const Range> ranges) {
  std::size_t points = 1;
  for (const Range& range : ranges) {
    points *= range.values.size();
    if (points > kMaxPoints)
      return fail(ErrorKind::usage, fmt::format("the ranges make more than {} points", kMaxPoints), {},
                  "leave some values out");
  }
  return points;
}

std::vector<std::string> values_at(std::span<const Range> ranges, std::size_t index) {
  std::vector<std::string> values(ranges.size());
  for (std::size_t i = ranges.size(); i-- > 0;) {
    values[i] = ranges[i].values[index % ranges[i].values.size()];
    index /= ranges[i].values.size();
  }
  return values;
}

Result<Settings> settings_at(const Settings& base, std::span<const Range> ranges, std::size_t index) {
  Settings settings = base;
  const std::vector<std::string> values = values_at(ranges, index);
  for (std::size_t i = 0; i < ranges.size(); ++i) FORESHARD_TRY(set_setting(settings, ranges[i].key, values[i]));
  if (settings.expert_parallel == 1 && splits_experts(ranges)) settings.router_imbalance = 1;
  FORESHARD_TRY(check(settings));
  return settings;
}

double router_imbalance_at(const Settings& base, std::span<const Range> ranges, std::size_t index) {
  Settings settings = base;
  const std::vector<std::string> values = values_at(ranges, index);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].key == kImbalanceKey)
      FORESHARD_CHECK(set_setting(settings, kImbalanceKey, values[i]), "parse_range() tried every value");
  return settings.router_imbalance;
}

}  // namespace foreshard
