// One JSON object after the other for the Chrome trace: keys in the order of the calls, strings escaped, invalid UTF-8
// replaced. Private to chrome_trace.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/quantity.hpp"

namespace foreshard::traces {

class ChromeObject {
 public:
  ChromeObject() : text_("{") {}
  ChromeObject& text(std::string_view key, std::string_view value);
  ChromeObject& number(std::string_view key, std::int64_t value);
  /// Beyond 2^63 too, as an unsigned number.
  ChromeObject& count(std::string_view key, std::uint64_t value);
  /// Microseconds with three decimals: integer nanoseconds without a loss.
  ChromeObject& time(std::string_view key, Nanoseconds value);
  /// JSON text as it is.
  ChromeObject& raw(std::string_view key, std::string_view json);
  ChromeObject& object(std::string_view key, const ChromeObject& value) { return raw(key, value.done()); }
  [[nodiscard]] std::string done() const { return text_ + "}"; }

 private:
  void key(std::string_view name);
  std::string text_;
};

}  // namespace foreshard::traces
