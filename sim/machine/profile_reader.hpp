// Reads a JSON object key by key and remembers the first thing that is wrong, with its place.
// Used by profile.cpp only; the caller reads everything and asks for the error at the end.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::sim {

class ProfileReader {
 public:
  explicit ProfileReader(std::string_view where) : where_(where) {}

  /// The member `key` of `object`, or null (and an error, unless it may be absent).
  const nlohmann::json* member(const nlohmann::json& object, const std::string& path, std::string_view key,
                               bool required = true);
  /// Refuses every key of `object` that is not in `known`.
  void known_keys(const nlohmann::json& object, const std::string& path, std::span<const std::string_view> known);
  /// {"value": number > 0 (or ≥ 0), "unit": unit, "source": text}; the value, 0 on an error.
  double constant(const nlohmann::json& object, const std::string& path, std::string_view key, std::string_view unit,
                  bool zero_allowed = false);
  double number(const nlohmann::json& object, const std::string& path, std::string_view key, double at_least);
  std::string text(const nlohmann::json& object, const std::string& path, std::string_view key);
  void source(const nlohmann::json& object, const std::string& path);

  void fail(const std::string& path, std::string what, std::string hint = {});
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> take_sources() { return std::move(sources_); }

 private:
  std::string where_;
  std::optional<Error> error_;  // the first
  std::vector<std::pair<std::string, std::string>> sources_;
};

}  // namespace foreshard::sim
