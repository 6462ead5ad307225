#include "traces/workload_file/json_text.hpp"

#include <cmath>

#include "core/base/json_io.hpp"

namespace foreshard::traces {

void write_value(std::string& out, std::string_view text) {
  out += json_quoted(text);
}

void write_value(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const std::string text = fmt::format("{}", number);
  out += text;
  // Without a point, -0.0 would read back as the integer 0.
  if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

}  // namespace foreshard::traces
