// JSON values as text and back: nlohmann's serializer and parser, compiled once instead of in every source that calls
// dump() or parse(). Sources that build values still include <nlohmann/json.hpp>. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace foreshard {

enum class JsonCharacters : bool { utf8, ascii };

/// One line, or with an indentation of `indent` blanks where it is 0 or more. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string json_text(const nlohmann::json& value, int indent = -1);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, int indent = -1,
                                    JsonCharacters characters = JsonCharacters::utf8);
/// `text` as a JSON string, with its quotes.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// Discarded (`is_discarded()`) where `text` is not JSON.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text);
[[nodiscard]] nlohmann::ordered_json parse_ordered_json_text(std::string_view text);

}  // namespace foreshard
