#include "core/models/presets.hpp"

#include "core/models/generate.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

std::uint64_t elements(const ModelConfig& model) {
  Settings settings;
  settings.gpus = 8;
  settings.seq = 16;
  settings.batch = 1;
  settings.param_dtype = DType::bfloat16;
  const auto w = generate(model, settings, {}, 132);
  REQUIRE(w);
  std::uint64_t n = 0;
  for (const Unit& unit : w->units)
    for (const Parameter& p : unit.parameters) n += p.numel();
  return n;
}

TEST_CASE("presets have the published numbers of parameters") {
  CHECK(elements(*preset("llama3-8b")) == 8'030'261'248);  // the model cards' 8.03, 70.6 and 405 billion
  CHECK(elements(*preset("llama3-70b")) == 70'553'706'496);
  CHECK(elements(*preset("llama3-405b")) == 405'853'388'800);
}

TEST_CASE("overrides keep a Llama's head dimension and ratios") {
  const auto wide = preset("llama-1b", {4096, 2});
  REQUIRE(wide);
  CHECK(wide->layers == 2);
  CHECK(wide->head_dim == 64);
  CHECK(wide->heads == 64);
  CHECK(wide->kv_heads == 16);
  CHECK(wide->ffn == 16384);
  CHECK(preset("mlp", {5003, std::nullopt})->ffn == 5003);
}

TEST_CASE("names and overrides that fit nothing are refused") {
  for (const auto& bad :
       {preset("llama-2b"), preset("llama-1b", {2049, std::nullopt}), preset("torch-transformer", {4098, std::nullopt}),
        preset("mlp", {0, std::nullopt}), preset("mlp", {std::nullopt, 0})}) {
    REQUIRE(!bad);
    CHECK(bad.error().kind == ErrorKind::usage);
  }
  CHECK(is_preset("mlp"));
  CHECK(is_preset("deepseek-v3"));
  CHECK(!preset("deepseek-v3", {4096, std::nullopt}));
  CHECK(!preset("moonlight-16b", {std::nullopt, 0}));
  CHECK(!is_preset("gpt-5"));
  CHECK(preset_names().front() == "mlp");
}

}  // namespace
}  // namespace foreshard
