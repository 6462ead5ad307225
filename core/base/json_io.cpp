#include "core/base/json_io.hpp"

#include <nlohmann/json.hpp>

namespace foreshard {
namespace {

template <class Json>
std::string written(const Json& value, int indent, bool ascii) {
  return value.dump(indent, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) {
  return written(value, indent, false);
}

std::string json_text(const nlohmann::ordered_json& value, int indent, JsonCharacters characters) {
  return written(value, indent, characters == JsonCharacters::ascii);
}

std::string json_quoted(std::string_view text) {
  return written(nlohmann::json(text), -1, false);
}

nlohmann::json parse_json_text(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

nlohmann::ordered_json parse_ordered_json_text(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

}  // namespace foreshard
