// The space of settings that a sweep walks: values for each setting, and their cross product.
//
// Who: cli's sweep; the search over the space. Pure and deterministic: points are numbered as an odometer counts,
// the last range fastest.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

/// Values of one setting, as set_setting() takes them.
struct Range {
  std::string key;
  std::vector<std::string> values;  ///< at least one, none twice
  bool operator==(const Range&) const = default;
};

/// Beyond that a sweep is no longer a table for a person; a step's simulation takes about 10 ms.
inline constexpr std::size_t kMaxPoints = 1'000'000;
inline constexpr std::size_t kMaxValues = 10'000;  ///< of one range

/// The values of an option's text: a comma list of values and of a..b (whole numbers, both ends included):
/// "implicit,1..4". Texts are taken whole where commas are part of a value: `alloc_conf`, files, and a `release` by
/// collective; such options are given once for each value. "UNIT=true,false" of reshard_of_unit gives
/// "UNIT=true" and "UNIT=false". Every value is tried on default settings; errors (usage) are those of set_setting(),
/// and say what a wrong range is.
[[nodiscard]] Result<std::vector<std::string>> parse_range(std::string_view key, std::string_view text);

/// Adds values to the range of `key`, making it where it is not there; for reshard_of_unit one range a unit.
/// Values that are there already, by this name or another, are left out; returns them: "2", "adamw-fused (which is
/// adam-fused)".
std::vector<std::string> add_values(std::vector<Range>& ranges, std::string_view key,
                                    const std::vector<std::string>& values);

/// What is tried where no setting is given: prefetch, resharding and the all-gather's transport, which leave the
/// program as it is.
[[nodiscard]] std::vector<Range> usual_ranges();

/// Product of the numbers of values; 1 without ranges. Fails (usage) above kMaxPoints.
[[nodiscard]] Result<std::size_t> count_points(std::span<const Range> ranges);

/// The value of each range at point `index`.
[[nodiscard]] std::vector<std::string> values_at(std::span<const Range> ranges, std::size_t index);

/// `base` with the values of point `index` set, and checked. Beside points whose experts are on several ranks, one of
/// expert_parallel 1 has router_imbalance 1: a rank that has all experts sees none. Fails where the options contradict
/// each other.
[[nodiscard]] Result<Settings> settings_at(const Settings& base, std::span<const Range> ranges, std::size_t index);

/// The router_imbalance that point `index` was asked for, whether or not it has one.
[[nodiscard]] double router_imbalance_at(const Settings& base, std::span<const Range> ranges, std::size_t index);

}  // namespace foreshard
