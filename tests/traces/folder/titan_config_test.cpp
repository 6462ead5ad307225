// torchtitan's config.json as settings.
#include "traces/folder/titan_config.hpp"

#include "core/settings/settings_table.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

constexpr const char* kTitanJson = R"({
 "model_spec": {"name": "llama3", "flavor": "8B"},
 "profiler": {"enable_profiling": true, "profile_freq": 10, "profiler_active": 2, "profiler_warmup": 3},
 "metrics": {"log_freq": 1},
 "optimizer": {"name": "AdamW", "lr": 0.0003, "implementation": "fused"},
 "training": {"local_batch_size": 2, "seq_len": 8192, "steps": 1000, "mixed_precision_param": "bfloat16",
              "mixed_precision_reduce": "float32"},
 "parallelism": {"data_parallel_replicate_degree": 2, "data_parallel_shard_degree": -1, "tensor_parallel_degree": 2,
                 "fsdp_reshard_after_forward": "default"},
 "activation_checkpoint": {"mode": "selective", "selective_ac_option": "op"}})";

TitanConfig parsed(const std::string& text) {
  const auto config = parse_titan_config(text, "config.json");
  REQUIRE(config);
  REQUIRE(*config);
  return **config;
}

std::string given(const TitanConfig& config) {
  std::string out;
  for (const auto& [key, value] : setting_options(config.about.settings))
    if (gives(config.about, key)) out += std::string(key) + "=" + value + " ";
  return out;
}

}  // namespace

TEST_CASE("a configuration's keys are settings") {
  const TitanConfig config = parsed(kTitanJson);
  CHECK(given(config) ==
        R"(replicate=2 tensor_parallel=2 batch=2 seq=8192 param_dtype="bfloat16" reduce_dtype="float32" )"
        R"(reshard_after_forward=true checkpoint="selective-op" optimizer="adam-fused" )");
  CHECK(config.profile_freq == 10);
  CHECK(config.profiled_steps == 5);
  CHECK(config.batch_ranks == 2);
}

TEST_CASE("what stands for no one setting is left out") {
  const auto of = [](const std::string& keys) { return given(parsed(R"({"training": {}, "parallelism": {})" + keys)); };
  CHECK(of("}").empty());
  CHECK(of(R"(, "activation_checkpoint": {"mode": "selective", "selective_ac_option": "2"}})").empty());
  CHECK(of(R"(, "activation_checkpoint": {"mode": "memory_budget"}})").empty());
  CHECK(of(R"(, "activation_checkpoint": {"mode": "full"}})") == R"(checkpoint="blocks" )");
  CHECK(of(R"(, "optimizer": {"name": "Muon", "implementation": "fused"}})").empty());
  const TitanConfig pipelined = parsed(R"({"training": {"local_batch_size": 4, "seq_len": 16},
    "parallelism": {"pipeline_parallel_degree": 2, "fsdp_reshard_after_forward": "default"}})");
  CHECK(given(pipelined) == "reshard_after_forward=false ");
  CHECK(pipelined.batch_ranks == 2);
  CHECK(given(parsed(R"({"training": {"num_tokens_per_microbatch_per_dp_rank": 4096}, "parallelism": {}})")) ==
        "batch=1 seq=4096 ");
}

TEST_CASE("keys of other types, and other programs' files, say nothing") {
  CHECK(given(parsed(R"({"training": {"seq_len": "8192", "local_batch_size": -1, "mixed_precision_param": "int7"},
    "parallelism": {"data_parallel_replicate_degree": 99999999999, "fsdp_reshard_after_forward": 3},
    "optimizer": []})"))
            .empty());
  for (const char* other : {R"({"model_type": "llama"})", R"({"training": {}, "parallelism": 1})", "[]", "7"}) {
    const auto config = parse_titan_config(other, "config.json");
    REQUIRE(config);
    CHECK_FALSE(*config);
  }
  const auto broken = parse_titan_config("{\n\"training\": {", "config.json");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind == ErrorKind::input);
}
