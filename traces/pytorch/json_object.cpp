#include "traces/pytorch/json_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "core/base/suggest.hpp"

namespace foreshard::traces {

namespace {

/// "about.json, line 3, column 14" for a byte of the text, counted from 0.
std::string place_of_byte(const std::string& text, std::size_t byte, const std::string& name) {
  const std::size_t end = std::min(byte, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t line_start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = line_start == std::string::npos ? end + 1 : end - line_start;
  return fmt::format("{}, line {}, column {}", name, line, column);
}

/// nlohmann's message without its own prefix "[json.exception…] parse error at line 1, column 2: ".
std::string reason_of(const OrderedJson::parse_error& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

Result<OrderedJson> parse_json(const std::string& text, const std::string& name) {
  // nlohmann keeps the last of two equal keys; here they are an error, because one of the two would be ignored.
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  const auto watch = [&](int, OrderedJson::parse_event_t event, OrderedJson& parsed) {
    if (event == OrderedJson::parse_event_t::object_start) keys.emplace_back();
    if (event == OrderedJson::parse_event_t::object_end) keys.pop_back();
    if (event == OrderedJson::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second &&
        repeated.empty())
      repeated = parsed.get<std::string>();
    return true;
  };
  try {
    OrderedJson parsed = OrderedJson::parse(text, watch);
    if (!repeated.empty())
      return fail(ErrorKind::input, fmt::format("the key '{}' occurs twice in one object", repeated), name);
    return parsed;
  } catch (const OrderedJson::parse_error& error) {
    return fail(ErrorKind::input, "this is not valid JSON: " + reason_of(error),
                place_of_byte(text, error.byte == 0 ? 0 : error.byte - 1, name));
  } catch (const OrderedJson::exception& error) {  // a number beyond what a double holds
    return fail(ErrorKind::input, fmt::format("this JSON cannot be read: {}", error.what()), name);
  }
}

std::string JsonObject::place_of(std::string_view key) const {
  return place.ends_with(", ") ? place + std::string(key) : fmt::format("{}.{}", place, key);
}

Result<void> JsonObject::check_keys(std::span<const std::string_view> known) const {
  const std::string where = place.ends_with(", ") ? place.substr(0, place.size() - 2) : place;
  if (!value.is_object()) return fail(ErrorKind::input, "an object is needed here, this is " + describe(value), where);
  for (const auto& [key, unused] : value.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(ErrorKind::usage, fmt::format("unknown key '{}'", key.substr(0, kLongestWord)), where,
                  key.size() > kLongestWord ? std::string() : suggestion(key, known));
  return {};
}

Result<std::string> JsonObject::text(const std::string& key) const {
  const OrderedJson* found = find(key);
  if (found == nullptr) return fail(ErrorKind::input, "this key is missing", place_of(key));
  if (!found->is_string())
    return fail(ErrorKind::input, "a string is needed, this is " + describe(*found), place_of(key));
  return found->get<std::string>();
}

Result<std::uint32_t> JsonObject::count(const std::string& key, std::uint32_t at_least) const {
  const OrderedJson* found = find(key);
  if (found == nullptr) return fail(ErrorKind::input, "this key is missing", place_of(key));
  const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() >= at_least &&
                    found->get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max();
  if (!fits)
    return fail(ErrorKind::input,
                fmt::format("a whole number of at least {} is needed, this is {}", at_least,
                            found->is_number() ? found->dump() : describe(*found)),
                place_of(key));
  return found->get<std::uint32_t>();
}

std::string describe(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::object:
      return "an object";
    case OrderedJson::value_t::array:
      return "an array";
    case OrderedJson::value_t::string:
      return "a string";
    case OrderedJson::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

}  // namespace foreshard::traces
