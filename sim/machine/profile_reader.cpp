#include "sim/machine/profile_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/suggest.hpp"

namespace foreshard::sim {

void ProfileReader::fail(const std::string& path, std::string what, std::string hint) {
  if (error_) return;
  error_ = Error{ErrorKind::usage, std::move(what), fmt::format("{} {}", where_, path.empty() ? "/" : path),
                 std::move(hint)};
}

const nlohmann::json* ProfileReader::member(const nlohmann::json& object, const std::string& path, std::string_view key,
                                            bool required) {
  if (!object.is_object()) {
    fail(path, "an object is expected here");
    return nullptr;
  }
  const auto it = object.find(std::string(key));
  if (it != object.end()) return &*it;
  if (required) fail(path, fmt::format("'{}' is missing", key));
  return nullptr;
}

void ProfileReader::known_keys(const nlohmann::json& object, const std::string& path,
                               std::span<const std::string_view> known) {
  if (!object.is_object()) return fail(path, "an object is expected here");
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(path + "/" + key, fmt::format("unknown key '{}'", key), suggestion(key, known));
}

double ProfileReader::number(const nlohmann::json& object, const std::string& path, std::string_view key,
                             double at_least) {
  const nlohmann::json* value = member(object, path, key);
  if (value == nullptr) return 0;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (std::isfinite(number) && number >= at_least && number <= 1e15) return number;
  fail(fmt::format("{}/{}", path, key), fmt::format("a number of at least {} is expected here", at_least));
  return 0;
}

std::string ProfileReader::text(const nlohmann::json& object, const std::string& path, std::string_view key) {
  const nlohmann::json* value = member(object, path, key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail(fmt::format("{}/{}", path, key), "a text is expected here");
  return {};
}

void ProfileReader::source(const nlohmann::json& object, const std::string& path) {
  std::string where_from = text(object, path, "source");
  if (where_from.empty()) fail(path, "a constant needs a source", "say where the number is from");
  sources_.emplace_back(path, std::move(where_from));
}

double ProfileReader::constant(const nlohmann::json& object, const std::string& path, std::string_view key,
                               std::string_view unit, bool zero_allowed) {
  static constexpr std::array<std::string_view, 3> kKeys{"value", "unit", "source"};
  const std::string place = fmt::format("{}/{}", path, key);
  const nlohmann::json* entry = member(object, path, key);
  if (entry == nullptr) return 0;
  known_keys(*entry, place, kKeys);
  const double value = number(*entry, place, "value", 0);
  if (value == 0 && !zero_allowed) fail(place + "/value", "a number above 0 is expected here");
  if (const std::string given = text(*entry, place, "unit"); given != unit)
    fail(place + "/unit", fmt::format("the unit is '{}', not '{}'", unit, given));
  source(*entry, place);
  return value;
}

}  // namespace foreshard::sim
