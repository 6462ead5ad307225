// Typed keys of a config.json. The first refusal is kept; what comes after it is ignored.
//
// Private to traces/model_files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::traces {

/// A key whose value is null counts as absent, as in PretrainedConfig.
class ConfigKeys {
 public:
  /// `json` is an object and must outlive this.
  ConfigKeys(const OrderedJson& json, std::string name) : json_(json), name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Whether it is there as null: of keys where that says something else than absence.
  [[nodiscard]] bool is_null(std::string_view key) const;

  /// A whole number from 1 to `most` under the first of `spellings` that is there; refuses its absence.
  std::uint64_t size(std::initializer_list<std::string_view> spellings, std::uint64_t most);
  /// The same, `otherwise` where it is absent.
  std::uint64_t size_or(std::initializer_list<std::string_view> spellings, std::uint64_t most, std::uint64_t otherwise);
  /// A list of whole numbers below `end`; empty where it is absent.
  std::vector<std::uint32_t> places(std::string_view key, std::uint32_t end);
  bool flag_or(std::string_view key, bool otherwise);
  double number_or(std::string_view key, double otherwise);
  /// Text, refusing any other type; none where absent.
  std::optional<std::string> word(std::string_view key);
  /// Text where it is text; never refuses.
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;

  void refuse(std::string_view key, std::string what, std::string hint = {}, ErrorKind kind = ErrorKind::input);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }

 private:
  [[nodiscard]] const OrderedJson* find(std::string_view key) const;
  /// A key of the file that is nearly `key`, as a hint.
  [[nodiscard]] std::string misspelt(std::string_view key) const;

  const OrderedJson& json_;
  std::string name_;
  std::optional<Error> error_;
};

}  // namespace foreshard::traces
