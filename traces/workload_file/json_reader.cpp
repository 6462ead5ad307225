#include "traces/workload_file/json_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/json_io.hpp"
#include "core/base/suggest.hpp"

namespace foreshard::traces {
namespace {

/// The start of a value, for a message.
std::string excerpt(const Json& json) {
  if (json.is_array()) return "an array";
  if (json.is_object()) return "an object";
  std::string text = json_text(json);
  return text.size() > 40 ? text.substr(0, 40) + "…" : text;
}

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return fmt::format("{}:{}", lines + 1, column + 1);
}

/// "[json.exception.parse_error.101] parse error at line 3, column 5: unexpected …" without its head.
std::string reason(const nlohmann::json::parse_error& error) {
  const std::string_view what = error.what();
  const std::size_t colon = what.find(": ");
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

/// Keys seen in each object that is open, to find one that is there twice: nlohmann keeps the last.
class KeyWatch {
 public:
  bool operator()(int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key) {
      std::vector<std::string>& keys = open_.back();
      const auto& key = value.get_ref<const std::string&>();
      if (repeated_.empty() && std::find(keys.begin(), keys.end(), key) != keys.end()) repeated_ = key;
      // Objects of a workload have a handful of keys; a foreign one with thousands is not searched on.
      if (keys.size() < 64) keys.push_back(key);
    }
    return true;
  }
  [[nodiscard]] const std::string& repeated() const { return repeated_; }

 private:
  std::vector<std::vector<std::string>> open_;
  std::string repeated_;
};

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
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail(fmt::format("unknown key '{}'", key), suggestion(key, known));
      return false;
    }
  return true;
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

Result<Json> parse_strict_json(std::string_view text, std::string_view where) {
  KeyWatch watch;
  const auto callback = [&watch](int depth, Json::parse_event_t event, Json& value) {
    return watch(depth, event, value);
  };
  try {
    Json json = Json::parse(text, callback);
    if (watch.repeated().empty()) return json;
    return foreshard::fail(ErrorKind::input, fmt::format("duplicate key '{}' in one object", watch.repeated()),
                           std::string(where));
  } catch (const Json::parse_error& error) {
    return foreshard::fail(ErrorKind::input, "is not JSON: " + reason(error),
                           fmt::format("{}:{}", where, line_and_column(text, error.byte)));
  } catch (const Json::exception& error) {  // numbers that no type holds
    return foreshard::fail(ErrorKind::input, std::string("is not JSON: ") + error.what(), std::string(where));
  }
}

}  // namespace foreshard::traces
