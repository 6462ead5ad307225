// Any target gives what was asked, written in one way alone, or an Error; hosts and origins that pass are loopback's.
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.hpp"
#include "viz/serve/request.hpp"

using foreshard::viz::Asked;

namespace {

std::string written(const Asked& asked) {
  switch (asked.what) {
    case Asked::What::index:
      return "/";
    case Asked::What::page:
      return fmt::format("/run/{}/", asked.run);
    case Asked::What::sql:
      return fmt::format("/run/{}/sql", asked.run);
    case Asked::What::progress:
      return fmt::format("/run/{}/progress?from={}", asked.run, asked.from);
    case Asked::What::piece:
      return fmt::format("/run/{}/{}/{}", asked.run, asked.generation, asked.name);
    case Asked::What::comparison:
      return fmt::format("/compare/{}/{}/", asked.run, asked.other);
    case Asked::What::comparison_piece:
      return fmt::format("/compare/{}/{}/{}/{}/{}", asked.run, asked.other, asked.generation, asked.other_generation,
                         asked.name);
  }
  FORESHARD_CHECK(false, "a kind of target that is not written here");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto asked = foreshard::viz::parse_target(text);
  if (asked) {
    FORESHARD_CHECK(written(*asked) == text, "one target, one meaning");
    FORESHARD_CHECK(asked->name.find("..") == std::string::npos && asked->name.find('%') == std::string::npos,
                    "a name is a name");
  }
  if (foreshard::viz::own_host(text, 8347))
    FORESHARD_CHECK(text == "127.0.0.1:8347" || text == "localhost:8347" || text == "[::1]:8347", "the loopback");
  if (foreshard::viz::own_origin(text, 8347)) FORESHARD_CHECK(text.size() < 30, "http:// and the loopback");
  return 0;
}
