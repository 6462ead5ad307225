// Strict reading of small hand-written JSON: every key known, every value of its type, every error with its place.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::traces {

using OrderedJson = nlohmann::ordered_json;

/// An object with its path in the document, for messages: "about.json, units[3].parameters[0]".
struct JsonObject {
  const OrderedJson& value;
  std::string place;

  /// The member of that name, or null.
  [[nodiscard]] const OrderedJson* find(const std::string& key) const;
  [[nodiscard]] std::string place_of(std::string_view key) const;
  /// Fails unless the value is an object with no other keys than `known`.
  [[nodiscard]] Result<void> check_keys(std::span<const std::string_view> known) const;
  [[nodiscard]] Result<std::string> text(const std::string& key) const;
  [[nodiscard]] Result<std::uint32_t> count(const std::string& key, std::uint32_t at_least) const;
};

/// "a string", "an object", …
[[nodiscard]] std::string describe(const OrderedJson& value);

}  // namespace foreshard::traces
