// Any text gives torchtitan's settings, none or an Error; what is given is a setting that was set.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "traces/folder/titan_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config =
      foreshard::traces::parse_titan_config(std::string(reinterpret_cast<const char*>(data), size), "config.json");
  if (!config || !*config) return 0;
  FORESHARD_CHECK((*config)->batch_ranks >= 1, "a batch has a rank");
  FORESHARD_CHECK(!gives((*config)->about, "batch") || (*config)->about.settings.batch, "what is given is set");
  return 0;
}
