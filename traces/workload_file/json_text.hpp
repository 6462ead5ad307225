// Values as JSON text, for to_json. Private to traces/workload_file.
// Appends to `out`; the same value always gives the same text, whatever the locale.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::traces {

void write_value(std::string& out, std::string_view text);
/// The shortest text that reads back as the same number; null for what JSON has no number for.
void write_value(std::string& out, double number);
inline void write_value(std::string& out, bool flag) {
  out += flag ? "true" : "false";
}
inline void write_value(std::string& out, DType dtype) {
  write_value(out, name(dtype));
}

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) void write_value(std::string& out, T number) {
  fmt::format_to(std::back_inserter(out), "{}", number);
}
inline void write_value(std::string& out, Nanoseconds time) {
  write_value(out, time.count);
}
template <class Tag>
void write_value(std::string& out, Id<Tag> id) {
  if (id.valid()) {
    write_value(out, id.value);
  } else {
    out += "null";
  }
}
template <NamedEnum E>
void write_value(std::string& out, E word) {
  out += '"';
  out += name(word);
  out += '"';
}
inline void write_value(std::string& out, const std::string& text) {
  write_value(out, std::string_view(text));
}

/// A list on one line.
template <class T>
void write_value(std::string& out, const std::vector<T>& values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    write_value(out, values[i]);
  }
  out += ']';
}

}  // namespace foreshard::traces
