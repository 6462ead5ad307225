// What several reports write into JSON alike.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace foreshard::cli {

/// null for no text.
[[nodiscard]] inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

/// null for none.
[[nodiscard]] inline nlohmann::ordered_json texts_or_null(const std::vector<std::string>& texts) {
  return texts.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(texts);
}

}  // namespace foreshard::cli
