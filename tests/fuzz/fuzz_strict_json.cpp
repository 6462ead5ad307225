// Any text gives a JSON document or an Error with its place; both kinds of objects agree on which.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.hpp"
#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = parse_strict_json(text, "input");
  const auto ordered = parse_strict_ordered_json(text, "input");
  FORESHARD_CHECK(json.has_value() == ordered.has_value(), "one set of rules");
  if (!json) {
    FORESHARD_CHECK(json.error().text() == ordered.error().text(), "one error");
    FORESHARD_CHECK(json.error().kind == ErrorKind::input && json.error().where.starts_with("input, line "), "a place");
    return 0;
  }
  const auto again = parse_strict_json(json_text(*json), "written");
  FORESHARD_CHECK(again.has_value(), again ? "" : again.error().text());
  return 0;
}
