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
#include "sim/machine/fitted_on.hpp"

namespace foreshard::sim {

class ProfileReader {
 public:
  /// `fits_required`: a constant without fitted_on is refused.
  ProfileReader(std::string_view where, bool fits_required) : where_(where), fits_required_(fits_required) {}

  /// The member `key` of `object`, or null (and an error, unless it may be absent).
  const nlohmann::json* member(const nlohmann::json& object, const std::string& path, std::string_view key,
                               bool required = true);
  /// Refuses every key of `object` that is not in `known`. What has a "source" may have a "fitted_on".
  void known_keys(const nlohmann::json& object, const std::string& path, std::span<const std::string_view> known);
  /// {"value": number > 0 (or ≥ 0), "unit": unit, "source": text, "fitted_on": …}; the value, 0 on an error. Units with
  /// a plausible range (GB/s, TFLOP/s, us, MiB, MHz, ratio, count) refuse what lies beyond it; a count is a whole
  /// number.
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
  /// The object's "source" and "fitted_on": remembered under `path`, an error where they are missing or empty.
  /// fitted_on is a list of names that a measurement() has, or "none: " and a reason.
  void source(const nlohmann::json& object, const std::string& path);
  /// Its "source" without "fitted_on", of what is not a constant: a range, the name of a program.
  void source_only(const nlohmann::json& object, const std::string& path);
  void measurement(Measurement measurement) { provenance_.measurements.push_back(std::move(measurement)); }

  void fail(const std::string& path, std::string what, std::string hint = {});
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> take_sources() { return std::move(sources_); }
  [[nodiscard]] Provenance take_provenance() { return std::move(provenance_); }

 private:
  void fitted_on(const nlohmann::json& object, const std::string& path);

  std::string where_;
  bool fits_required_;
  std::optional<Error> error_;  // the first
  std::vector<std::pair<std::string, std::string>> sources_;
  Provenance provenance_;
};

}  // namespace foreshard::sim
