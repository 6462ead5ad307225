#include "core/base/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/suggest.hpp"
#include "core/base/utf8.hpp"

namespace foreshard {
namespace {

/// Longer keys are cut in messages and get no suggestion, whose cost grows with their length.
constexpr std::size_t kLongestKey = 200;
/// nlohmann quotes what it read last, up to a whole document.
constexpr std::size_t kLongestReason = 300;

std::string cut(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "…";
}

/// Characters of a text that also says how far it has been read: nlohmann's callbacks do not.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *read_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** read_;
};

/// Watches a parse for what nlohmann lets pass; the first that it finds is kept.
class Watch {
 public:
  struct Fault {
    std::string what;
    std::string_view hint;
    std::size_t offset;
  };

  Watch(std::string_view text, const char* const& read) : text_(text), read_(read) {}

  template <class Json>
  bool operator()(int depth, typename Json::parse_event_t event, Json& value) {
    using Event = typename Json::parse_event_t;
    if (depth > kDeepestJson) {
      found({fmt::format("this JSON is nested deeper than {}", kDeepestJson), "is it the right file?", offset() - 1});
      return false;
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = value.template get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        found({fmt::format("the key '{}' occurs twice in one object", cut(key, kLongestKey)), "keep one of them",
               key_begin()});
    }
    return true;
  }

  [[nodiscard]] const std::optional<Fault>& fault() const { return fault_; }

 private:
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(read_ - text_.data()); }
  /// Of the key whose closing quote was read last: back to the quote that no backslash stands before.
  [[nodiscard]] std::size_t key_begin() const {
    std::size_t at = offset() - 1;
    do at = text_.rfind('"', at - 1);
    while (at > 0 && text_[at - 1] == '\\');
    return at;
  }
  void found(Fault fault) {
    if (!fault_) fault_ = std::move(fault);
  }

  std::string_view text_;
  const char* const& read_;
  std::vector<std::set<std::string>> keys_;  // of every object that is open
  std::optional<Fault> fault_;
};

/// "about.json, line 3, column 14" for a byte of the text, counted from 0.
std::string place_of_byte(std::string_view text, std::size_t byte, std::string_view file) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("{}, line {}, column {}", file, line, column);
}

/// nlohmann's message without its own prefix "[json.exception…] parse error at line 1, column 2: ".
std::string reason_of(const std::exception& error) {
  std::string_view text = error.what();
  if (const std::size_t bracket = text.find("] "); bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
  if (text.starts_with("parse error at "))
    if (const std::size_t colon = text.find(": "); colon != std::string_view::npos) text.remove_prefix(colon + 2);
  return valid_utf8(cut(text, kLongestReason));
}

template <class Json>
Result<Json> parse(std::string_view text, std::string_view file, std::string_view hint) {
  const char* read = text.data();
  const char* const begin = text.data();
  Watch watch(text, read);
  const auto refuse = [&](std::string what, std::size_t byte, std::string_view advice) {
    return fail(ErrorKind::input, std::move(what), place_of_byte(text, byte, file), std::string(advice));
  };
  const auto callback = [&watch](int depth, typename Json::parse_event_t event, Json& value) {
    return watch(depth, event, value);
  };
  try {
    Json parsed = Json::parse(Cursor(begin, &read), Cursor(begin + text.size(), &read), callback);
    if (!watch.fault()) return parsed;
    return refuse(watch.fault()->what, watch.fault()->offset, watch.fault()->hint);
  } catch (const typename Json::parse_error& error) {
    const std::size_t byte = error.byte == 0 ? 0 : error.byte - 1;
    if (text.empty()) return refuse("this is not valid JSON: it is empty", 0, hint);
    if (byte < text.size()) return refuse("this is not valid JSON: " + reason_of(error), byte, hint);
    return refuse("this is not valid JSON: it is cut short", byte, "copy the file again, or write it again");
  } catch (const typename Json::exception& error) {  // a number beyond what a double holds
    return refuse("this JSON cannot be read: " + reason_of(error), static_cast<std::size_t>(read - begin), hint);
  }
}

template <class Json>
std::optional<UnknownKey> unknown(const Json& object, std::span<const std::string_view> known) {
  if (!object.is_object()) return std::nullopt;
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return UnknownKey{key, fmt::format("unknown key '{}'", cut(key, kLongestKey)),
                        key.size() > kLongestKey ? std::string() : suggestion(key, known)};
  return std::nullopt;
}

}  // namespace

Result<nlohmann::json> parse_strict_json(std::string_view text, std::string_view file, std::string_view hint) {
  return parse<nlohmann::json>(text, file, hint);
}

Result<nlohmann::ordered_json> parse_strict_ordered_json(std::string_view text, std::string_view file,
                                                         std::string_view hint) {
  return parse<nlohmann::ordered_json>(text, file, hint);
}

std::optional<UnknownKey> unknown_key(const nlohmann::json& object, std::span<const std::string_view> known) {
  return unknown(object, known);
}

std::optional<UnknownKey> unknown_key(const nlohmann::ordered_json& object, std::span<const std::string_view> known) {
  return unknown(object, known);
}

}  // namespace foreshard
