// Reads a JSON object key by key and remembers the first thing that is wrong, with its place.
// Used by the read_*.cpp of this folder; the caller reads everything and profile.cpp asks for the error at the end.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::sim {

class ProfileReader {
 public:
  explicit ProfileReader(std::string_view where) : where_(where) {}

  /// The member `key` of `object`, or null (and an error, unless it may be absent).
  const nlohmann::json* member(const nlohmann::json& object, const std::string& path, std::string_view key,
                               bool required = true);
  /// Refuses every key of `object` that is not in `known`.
  void known_keys(const nlohmann::json& object, const std::string& path, std::span<const std::string_view> known);
  /// {"value": number > 0 (or ≥ 0), "unit": unit, "source": text}; the value, 0 on an error. Units with a plausible
  /// range (GB/s, TFLOP/s, us, MiB, MHz, ratio, count) refuse what lies beyond it; a count is a whole number.
  double constant(const nlohmann::json& object, const std::string& path, std::string_view key, std::string_view unit,
                  bool zero_allowed = false);
  /// A constant in microseconds, 0 allowed.
  Nanoseconds time(const nlohmann::json& object, const std::string& path, std::string_view key);
  double number(const nlohmann::json& object, const std::string& path, std::string_view key, double at_least);
  /// A plain whole number between `at_least` and 10⁶.
  std::uint32_t count(const nlohmann::json& object, const std::string& path, std::string_view key,
                      std::uint32_t at_least);
  std::string text(const nlohmann::json& object, const std::string& path, std::string_view key);
  /// Index of the word under `key`, or that `value` is; an error and 0 where it is none of `words`.
  std::size_t word(const nlohmann::json& object, const std::string& path, std::string_view key,
                   std::span<const std::string_view> words);
  std::size_t word(const nlohmann::json& value, const std::string& place, std::span<const std::string_view> words);
  /// The object's "source": remembered under `path`, an error where it is missing or empty.
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
