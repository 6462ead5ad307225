#include "traces/export/chrome_event.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "traces/workload_file/json_text.hpp"

namespace foreshard::traces {
namespace {

/// Keys and most names need no escape.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

void append(std::string& out, std::string_view text) {
  if (!is_plain(text)) return write_value(out, text);
  out += '"';
  out += text;
  out += '"';
}

}  // namespace

void ChromeObject::key(std::string_view name) {
  if (text_.size() > 1) text_ += ", ";
  append(text_, name);
  text_ += ": ";
}

ChromeObject& ChromeObject::text(std::string_view name, std::string_view value) {
  key(name);
  append(text_, value);
  return *this;
}

ChromeObject& ChromeObject::number(std::string_view name, std::int64_t value) {
  key(name);
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

ChromeObject& ChromeObject::count(std::string_view name, std::uint64_t value) {
  key(name);
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

ChromeObject& ChromeObject::time(std::string_view name, Nanoseconds value) {
  key(name);
  const bool negative = value.count < 0;
  const std::uint64_t ns =
      negative ? 0 - static_cast<std::uint64_t>(value.count) : static_cast<std::uint64_t>(value.count);
  fmt::format_to(std::back_inserter(text_), "{}{}.{:03}", negative ? "-" : "", ns / 1000, ns % 1000);
  return *this;
}

ChromeObject& ChromeObject::raw(std::string_view name, std::string_view json) {
  key(name);
  text_ += json;
  return *this;
}

}  // namespace foreshard::traces
