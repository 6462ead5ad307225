// JSON documents that somebody gave us, read by one set of rules: machine profiles, about files, workloads,
// config.json, what other programs measured. The values in them are read by the rooms that know them.
//
// Every error is of kind input and names the file, line and column. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard {

/// Far beyond the documents that are read here; what is deeper is no such document.
inline constexpr int kDeepestJson = 64;

/// Errors: what is not JSON or cut short, nested deeper than kDeepestJson, has a key twice in one object (one of the
/// two would be ignored), or a number that no double holds. `hint` says what document is wanted; it may be empty.
[[nodiscard]] Result<nlohmann::json> parse_strict_json(std::string_view text, std::string_view file,
                                                       std::string_view hint = {});
/// The same, with the keys of objects in the document's order.
[[nodiscard]] Result<nlohmann::ordered_json> parse_strict_ordered_json(std::string_view text, std::string_view file,
                                                                       std::string_view hint = {});

/// A key that its reader does not know, and what an Error says of it.
struct UnknownKey {
  std::string key;
  std::string what;
  std::string hint;  ///< the nearest known key, or all of them
};
/// The first key of `object` that is none of `known`; nothing where all are known, or where it is no object.
[[nodiscard]] std::optional<UnknownKey> unknown_key(const nlohmann::json& object,
                                                    std::span<const std::string_view> known);
[[nodiscard]] std::optional<UnknownKey> unknown_key(const nlohmann::ordered_json& object,
                                                    std::span<const std::string_view> known);

}  // namespace foreshard
