// Any text gives allocator options or an Error, for every PyTorch version whose rules are known.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/allocator/config.hpp"
#include "core/base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string_view version : {"2.6", "2.10", "2.11", "2.12"}) {
    const auto config = foreshard::parse_alloc_conf(text, version);
    if (!config) continue;
    FORESHARD_CHECK(config->garbage_collection_threshold >= 0 && config->garbage_collection_threshold <= 1, "a share");
  }
  return 0;
}
