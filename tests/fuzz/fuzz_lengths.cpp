// Any text gives lengths or an Error, as a list and as a distribution; lengths stay in what is allowed.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "sim/forecast/lengths.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& lengths : {parse_length_list(text, "input"), parse_distribution(text)}) {
    if (!lengths) {
      FORESHARD_CHECK(!lengths.error().what.empty(), "an error says what is wrong");
      continue;
    }
    for (std::size_t step = 0; step < 64; ++step) {
      const std::uint32_t length = lengths->at(1, step);
      FORESHARD_CHECK(length > 0 && length <= kMaxLength, "a length is a number of tokens");
    }
  }
  return 0;
}
