// What the Hugging Face families cannot run, and what they say.
#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

std::string refusal(const ModelConfig& config, const Settings& settings) {
  const auto workload = generate(config, settings, {}, 132);
  REQUIRE_FALSE(workload);
  CHECK(workload.error().kind == ErrorKind::usage);
  CHECK_FALSE(workload.error().hint.empty());
  return workload.error().text();
}

TEST_CASE("grouped key heads in float32") {
  Settings settings = small_settings();
  settings.param_dtype.reset();
  CHECK(refusal(small_config(ModelFamily::hf_llama), settings).find("float32") != std::string::npos);
}

TEST_CASE("experts in float32") {
  Settings settings = small_settings();
  settings.param_dtype.reset();
  CHECK(refusal(small_config(ModelFamily::hf_mixtral), settings).find("16-bit") != std::string::npos);
}

TEST_CASE("sequences beyond learned positions") {
  Settings settings = small_settings();
  settings.seq = 129;
  CHECK(refusal(small_config(ModelFamily::hf_gpt2), settings).find("128 positions") != std::string::npos);
}

TEST_CASE("a sliding window that a sequence fills") {
  for (const ModelFamily family : {ModelFamily::hf_llama, ModelFamily::hf_mixtral, ModelFamily::hf_qwen2}) {
    ModelConfig c = small_config(family);
    const Settings settings = small_settings();
    c.sliding_window = *settings.seq;
    CHECK(refusal(c, settings).find(fmt::format("sliding window of {} tokens", *settings.seq)) != std::string::npos);
    c.sliding_window = *settings.seq + 1;  // no mask: the program of one without a window
    const Workload whole = generated(small_config(family), settings);
    CHECK(generated(c, settings).steps[0].ops.size() == whole.steps[0].ops.size());
  }
}

TEST_CASE("head dimensions that another attention kernel takes") {
  ModelConfig c = small_config(ModelFamily::hf_qwen3);
  c.head_dim = 256;
  CHECK(refusal(c, small_settings()).find("head dimension of 256") != std::string::npos);
  c.head_dim = 60;
  CHECK(refusal(c, small_settings()).find("head dimension of 60") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::model::testing
