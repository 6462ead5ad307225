#include "traces/workload_file/json_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"

namespace foreshard::traces {
namespace {

/// The start of a value, for a message.
std::string excerpt(const Json& json) {
  if (json.is_array()) return "an array";
  if (json.is_object()) return "an object";
  std::string text = json_text(json);
  if (text.size() > 40) text.replace(40, std::string::npos, "…");
  return text;
}

}  // namespace

void JsonReader::fail(std::string what, std::string hint) {
  if (error_) return;
  std::string path = "$";
  for (const auto& step : path_)
    path += std::holds_alternative<std::size_t>(step) ? fmt::format("[{}]", std::get<std::size_t>(step))
                                                      : fmt::format(".{}", std::get<std::string_view>(step));
  error_ = Error{ErrorKind::input, std::move(what), where_.empty() ? path : where_ + ": " + path, std::move(hint)};
}

bool JsonReader::object(const Json& json, std::span<const std::string_view> known) {
  if (failed()) return false;
  if (!json.is_object()) {
    wrong_type(json, "an object");
    return false;
  }
  if (auto unknown = unknown_key(json, known)) fail(std::move(unknown->what), std::move(unknown->hint));
  return !failed();
}

bool JsonReader::array(const Json& json) {
  if (failed()) return false;
  if (!json.is_array()) wrong_type(json, "an array");
  return json.is_array();
}

void JsonReader::read(const Json& json, std::string& out) {
  if (!json.is_string()) return wrong_type(json, "text");
  out = json.get_ref<const std::string&>();
}

void JsonReader::read(const Json& json, bool& out) {
  if (!json.is_boolean()) return wrong_type(json, "true or false");
  out = json.get<bool>();
}

void JsonReader::read(const Json& json, double& out) {
  if (!json.is_number()) return wrong_type(json, "a number");
  out = json.get<double>();
}

void JsonReader::read(const Json& json, DType& out) {
  std::array<std::string_view, kDTypes.size()> names;
  std::transform(kDTypes.begin(), kDTypes.end(), names.begin(), [](const DTypeInfo& info) { return info.name; });
  if (!json.is_string()) return wrong_type(json, "a word");
  const auto& word = json.get_ref<const std::string&>();
  if (const std::optional<DType> value = parse_dtype(word)) {
    out = *value;
  } else {
    unknown_word(word, names);
  }
}

void JsonReader::read(const Json& json, LabelId& out) {
  out = {};
  if (json.is_null()) return;
  if (json.is_string()) {
    out = labels_.intern(json.get_ref<const std::string&>());
    return;
  }
  read(json, out.value);
  if (out.value >= labels_.texts().size() && !failed())
    fail(fmt::format("there is no label {}: \"labels\" has {}", out.value, labels_.texts().size()));
}

void JsonReader::wrong_type(const Json& json, std::string_view wanted) {
  fail(fmt::format("{} is wanted here, not {}", wanted, excerpt(json)));
}

void JsonReader::out_of_range(const Json& json) {
  fail(fmt::format("{} is out of range here", excerpt(json)));
}

void JsonReader::unknown_word(const std::string& word, std::span<const std::string_view> known) {
  fail(fmt::format("unknown word '{}'", word), suggestion(word, known));
}

}  // namespace foreshard::traces
