// Any text gives a model or an Error; what is accepted holds together.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "traces/model_files/hf_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file =
      foreshard::traces::parse_hf_config(std::string(reinterpret_cast<const char*>(data), size), "config.json");
  if (!file) return 0;
  const foreshard::ModelConfig& m = file->model;
  FORESHARD_CHECK(m.layers >= 1 && m.layers <= 10'000, "layers are bounded");
  FORESHARD_CHECK(m.kv_heads >= 1 && m.heads % m.kv_heads == 0, "heads come in groups");
  FORESHARD_CHECK(m.dim >= 1 && m.head_dim >= 1 && m.ffn >= 1 && m.vocab >= 1 && m.default_seq >= 1, "sizes are there");
  FORESHARD_CHECK(m.experts_per_token <= m.experts, "a token goes to experts that exist");
  return 0;
}
