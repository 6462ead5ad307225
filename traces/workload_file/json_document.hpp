// A JSON document as simdjson has it, and what of it is asked for.
//
// Private to traces/workload_file. Values are views into the document, which must outlive them. A list's elements are
// reached in order, an object's members by looking at each: both are short, but for lists that are read from their
// begin to their end.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::traces {

using Json = simdjson::dom::element;
using JsonList = simdjson::dom::array;

class JsonDocument {
 public:
  /// Its outermost value, for as long as `this` lives and parses nothing else. Errors as parse_strict_json()'s, but
  /// that a key may be there twice.
  [[nodiscard]] Result<Json> parse(std::string_view text, std::string_view where);

 private:
  simdjson::dom::parser parser_;
};

/// Of what is_array().
[[nodiscard]] inline JsonList list_of(const Json& json) {
  return json.get_array().value_unsafe();
}
/// Of a list that is longer than `index`.
[[nodiscard]] inline Json item_of(const JsonList& list, std::size_t index) {
  return list.at(index).value_unsafe();
}
/// Of what is_object().
[[nodiscard]] inline simdjson::dom::object object_of(const Json& json) {
  return json.get_object().value_unsafe();
}
/// None where there is no such member, or `json` is no object.
[[nodiscard]] inline std::optional<Json> member_of(const Json& json, std::string_view key) {
  Json found;
  return json[key].get(found) == simdjson::SUCCESS ? std::optional(found) : std::nullopt;
}

/// A copy of its own. Of a key that is there twice the last value.
[[nodiscard]] nlohmann::json plain(const Json& json);

}  // namespace foreshard::traces
