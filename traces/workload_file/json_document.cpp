#include "traces/workload_file/json_document.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kLeastCapacity = 64;  // simdjson's own buffers want some

}  // namespace

Result<Json> JsonDocument::parse(std::string_view text, std::string_view where) {
  Json root;
  const auto parse_into = [&](std::string_view document) {
    return parser_.allocate(std::max(document.size(), kLeastCapacity), kDeepestJson + 1) == simdjson::SUCCESS &&
           parser_.parse(document.data(), document.size()).get(root) == simdjson::SUCCESS;
  };
  if (parse_into(text)) return root;
  const auto strict = parse_strict_json(text, where);
  FORESHARD_TRY(strict);
  // Whole numbers beyond 64 bits are none to simdjson; written anew they are real ones.
  if (parse_into(json_text(*strict))) return root;
  return fail(ErrorKind::input, "this JSON cannot be read", std::string(where));
}

nlohmann::json plain(const Json& json) {
  switch (json.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return nullptr;
    case simdjson::dom::element_type::BOOL:
      return json.get_bool().value_unsafe();
    case simdjson::dom::element_type::INT64:
      return json.get_int64().value_unsafe();
    case simdjson::dom::element_type::UINT64:
      return json.get_uint64().value_unsafe();
    case simdjson::dom::element_type::DOUBLE:
      return json.get_double().value_unsafe();
    case simdjson::dom::element_type::STRING:
      return std::string(json.get_string().value_unsafe());
    case simdjson::dom::element_type::ARRAY: {
      nlohmann::json list = nlohmann::json::array();
      for (const Json item : list_of(json)) list.push_back(plain(item));
      return list;
    }
    default: {
      nlohmann::json object = nlohmann::json::object();
      for (const auto [key, value] : object_of(json)) object[std::string(key)] = plain(value);
      return object;
    }
  }
}

}  // namespace foreshard::traces
