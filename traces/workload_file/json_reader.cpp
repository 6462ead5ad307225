#include "traces/workload_file/json_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/check.hpp"
#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "core/base/utf8.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kMaxKeys = 64;  // of an object that is read; on the stack, as a file has millions of ops

/// The start of a value, for a message.
std::string excerpt(const Json& json) {
  if (json.is_array()) return "an array";
  if (json.is_object()) return "an object";
  std::string text = json_text(plain(json));
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
  FORESHARD_CHECK(known.size() <= kMaxKeys, "kMaxKeys holds the keys of every object");
  std::array<bool, kMaxKeys> seen{};
  for (const auto [key, value] : object_of(json)) {
    const auto place = std::find(known.begin(), known.end(), key);
    if (place == known.end()) {
      const auto unknown = unknown_key(plain(json), known);
      fail(unknown->what, unknown->hint);
      return false;
    }
    if (std::exchange(seen.at(static_cast<std::size_t>(place - known.begin())), true))
      fail(fmt::format("the key '{}' occurs twice in one object", key));
  }
  return !failed();
}

bool JsonReader::array(const Json& json) {
  if (failed()) return false;
  if (!json.is_array()) wrong_type(json, "an array");
  return json.is_array();
}

void JsonReader::read(const Json& json, std::string& out) {
  std::string_view text;
  if (json.get_string().get(text)) return wrong_type(json, "text");
  if (valid_utf8(text) != text) return fail("this text is not UTF-8");  // half of a pair of surrogates
  out = text;
}

void JsonReader::read(const Json& json, bool& out) {
  if (json.get_bool().get(out)) return wrong_type(json, "true or false");
}

void JsonReader::read(const Json& json, double& out) {
  if (json.get_double().get(out)) return wrong_type(json, "a number");
}

void JsonReader::read(const Json& json, DType& out) {
  std::array<std::string_view, kDTypes.size()> names;
  std::transform(kDTypes.begin(), kDTypes.end(), names.begin(), [](const DTypeInfo& info) { return info.name; });
  std::string_view word;
  if (json.get_string().get(word)) return wrong_type(json, "a word");
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
    std::string text;
    read(json, text);
    out = labels_.intern(text);
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

void JsonReader::unknown_word(std::string_view word, std::span<const std::string_view> known) {
  fail(fmt::format("unknown word '{}'", word), suggestion(word, known));
}

}  // namespace foreshard::traces
