// plan from models: presets, config.json and safetensors headers.
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/model_files/safetensors_sample.hpp"

using namespace foreshard::cli;
using foreshard::test::TemporaryFolder;
using foreshard::traces::safetensors_bytes;
using nlohmann::json;

TEST_CASE("a preset is planned at any batch, and a larger one takes more") {
  const auto plan = [](const std::string& batch) {
    const Answer answer = run_cli({"plan", "llama-tiny", "--layers", "2", "--gpus", "4", "--param-dtype", "bfloat16",
                                   "--seq", "512", "--batch", batch, "--json"});
    INFO(answer.err);
    REQUIRE(answer.status == 0);
    return json::parse(answer.out);
  };
  const json one = plan("1"), two = plan("2");
  CHECK(one["settings"]["batch"] == 1);
  CHECK(one["step_ms"].get<double>() > 0);
  CHECK(two["peak_allocated_bytes"].get<double>() > one["peak_allocated_bytes"].get<double>());
  CHECK(two["compute_ms"].get<double>() > one["compute_ms"].get<double>());
}

TEST_CASE("under offload the CPU's optimizer takes its time by element, and the plan says with how many threads") {
  const auto plan = [](const std::string& optimizer) {
    const Answer answer = run_cli({"plan", "mlp", "--dim", "4096", "--layers", "2", "--gpus", "2", "--offload",
                                   "--optimizer", optimizer, "--json"});
    REQUIRE(answer.status == 0);
    CHECK(answer.err.find("with 8 threads a rank") != std::string::npos);
    return json::parse(answer.out);
  };
  const json adam = plan("adam"), sgd = plan("sgd");
  CHECK(adam["valid"] == false);
  CHECK(adam["not_valid"].size() == 1);
  CHECK(adam["host_bound"] == true);
  // 2 x 2 products of 4096 x 4096 over two ranks: 33.6 million elements, at 2,198 and 231 us a million.
  CHECK(adam["host_ms"].get<double>() - sgd["host_ms"].get<double>() == Approx(33.56 * (2.198 - 0.231)).epsilon(0.02));
}

TEST_CASE("a config.json and a safetensors header are planned too") {
  const TemporaryFolder folder;
  const std::string config = folder.write(
      "config.json", R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
                         "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000})");
  const Answer known = run_cli({"plan", config, "--gpus", "2", "--param-dtype", "bfloat16", "--seq", "128", "--json"});
  INFO(known.err);
  REQUIRE(known.status == 0);
  CHECK(json::parse(known.out)["name"] == "llama");
  const std::string header =
      R"({"layers.0.w": {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [0, 4194304]},)"
      R"("layers.1.w": {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [4194304, 8388608]},)"
      R"("norm.weight": {"dtype": "F32", "shape": [1024], "data_offsets": [8388608, 8392704]}})";
  const std::string states = folder.write("m.safetensors", safetensors_bytes(header, 8392704));
  const Answer estimated = run_cli({"plan", states, "--gpus", "2", "--json"});
  INFO(estimated.err);
  REQUIRE(estimated.status == 0);
  const json result = json::parse(estimated.out);
  CHECK(result["valid"] == false);
  CHECK(estimated.err.find("compute is estimated") != std::string::npos);
  // Parameters, gradients and two Adam states of half the model: 4 x 8,392,704 / 2, and FSDP2's buffers on top.
  CHECK(result["peak_allocated_bytes"].get<std::uint64_t>() > 3 * 8392704 / 2);
}

TEST_CASE("models that cannot be planned say why") {
  const TemporaryFolder folder;
  const Answer family = run_cli({"plan", folder.write("config.json", R"({"model_type": "t5"})")});
  CHECK(family.status == 2);
  CHECK(family.err.find("llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v3, gpt2") != std::string::npos);
  const Answer size = run_cli({"plan", folder.write("config.json", R"({"model_type": "llama"})")});
  CHECK(size.status == 3);
  CHECK(size.err.find("config.json, num_hidden_layers: this key is missing") != std::string::npos);
  CHECK(run_cli({"plan", "llama-9b"}).status == 3);
  CHECK(run_cli({"plan", "mlp", "--dim", "-4"}).status == 2);
  CHECK(run_cli({"plan", "mlp", "--layers", "0"}).status == 2);
}

TEST_CASE("a stored run is planned on its own machine, unless another is asked for") {
  const TemporaryFolder folder;
  const std::string store = folder.file("run.db");
  const Answer first = run_cli({"plan", "llama-tiny", "--layers", "2", "--gpus", "4", "--batch", "1", "--seq", "256",
                                "--param-dtype", "bfloat16", "--machine", "a100", "-o", store});
  INFO(first.err);
  REQUIRE(first.status == 0);
  const auto machine = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", store, "--json"});
    const Answer answer = run_cli(words);
    INFO(answer.err);
    REQUIRE(answer.status == 0);
    return json::parse(answer.out)["machine"].get<std::string>();
  };
  CHECK(machine({}) == "a100");
  CHECK(machine({"--machine", "h100"}) == "h100");
}

TEST_CASE("lengths of which a process runs out of memory have no step, and the plan says what would fit") {
  const std::vector<std::string> asked{"plan",     "llama-1b", "--gpus",         "4",
                                       "--batch",  "4",        "--param-dtype",  "bfloat16",
                                       "--trials", "2",        "--memory-limit", "44GiB",
                                       "--seed",   "20",       "--lengths",      "512:1,1024:1,2048:1,3072:1"};
  const Answer text = run_cli(asked);
  CHECK(text.status == 10);
  CHECK(text.out.starts_with("does not fit: 4 of 4 processes run out of memory in 300 steps whose lengths vary"));
  const std::size_t second = text.out.find('\n') + 1;
  CHECK(text.out.substr(second, text.out.find('\n', second) - second).find(" would fit: at most ") !=
        std::string::npos);
  CHECK(text.out.find("ms a step") == std::string::npos);
  CHECK(text.out.find("a step takes") == std::string::npos);
  std::vector<std::string> as_json = asked;
  as_json.emplace_back("--json");
  const json j = json::parse(run_cli(as_json).out);
  CHECK(j["out_of_memory"] == true);
  for (const char* key : {"step_ms", "tokens_per_s_per_gpu", "mfu", "peak_allocated_bytes"}) {
    INFO(key);
    CHECK(j[key].is_null());
  }
  CHECK(j["trials"].is_null());
  CHECK(j["free_at_peak_bytes"] == 0);
  const json& memory = j["drawn_memory"];
  CHECK(memory["out_of_memory"] == 4);
  CHECK(j["peak_reserved_bytes"] == memory["peak_reserved_bytes"]["most"]);
  REQUIRE(memory["fits_with"].is_string());
}

TEST_CASE("one of several processes of drawn lengths that dies makes plan exit as forecast does") {
  const std::vector<std::string> job{"llama-1b",
                                     "--gpus",
                                     "4",
                                     "--batch",
                                     "4",
                                     "--param-dtype",
                                     "bfloat16",
                                     "--memory-limit",
                                     "44GiB",
                                     "--lengths",
                                     "512:1,1024:1,2048:1,3072:1"};
  const auto asked = [&](const char* verb, std::vector<std::string> more) {
    more.insert(more.begin(), verb);
    more.insert(more.end(), job.begin(), job.end());
    return run_cli(more);
  };
  const Answer plan = asked("plan", {"--trials", "2"});
  const Answer forecast = asked("forecast", {"--seed", "0", "--seeds", "4", "--steps", "300", "--no-remedies"});
  CHECK(plan.out.starts_with("does not fit: 2 of 4 processes run out of memory in 300 steps whose lengths vary"));
  CHECK(forecast.out.find("2 of 4 seeds run out of memory") != std::string::npos);
  CHECK(plan.status == 10);
  CHECK(forecast.status == plan.status);
  CHECK(plan.out.find(" would fit: at most ") != std::string::npos);
}

TEST_CASE("where the longest of drawn lengths do not fit either, no other length is a remedy") {
  std::vector<std::string> asked{"plan",     "llama-tiny", "--gpus",         "4",     "--batch",   "16",
                                 "--trials", "2",          "--memory-limit", "20GiB", "--lengths", "512:8,2048:1"};
  const Answer text = run_cli(asked);
  CHECK(text.status == 10);
  CHECK(text.out.starts_with("does not fit: 4 of 4 processes run out of memory in 300 steps whose lengths vary"));
  CHECK(text.out.find("; with samples of 2048 tokens alone out of memory in step 0, ") != std::string::npos);
  CHECK(text.out.find("--seq ") == std::string::npos);
  CHECK(text.out.find(" would fit: at most ") != std::string::npos);
  asked.emplace_back("--json");
  const json j = json::parse(run_cli(asked).out);
  CHECK(j["out_of_memory"] == true);
  CHECK(j["trials"].is_null());
  CHECK(j.find("what_fits") == j.end());
  CHECK(j["drawn_memory"]["out_of_memory"] == 4);
  CHECK(j["drawn_memory"]["fits_with"].is_string());
}

TEST_CASE("a longest length that is hardly ever drawn does not fit, though no process drew it") {
  const std::vector<std::string> asked{"plan",           "llama-tiny", "--gpus",    "4",
                                       "--batch",        "16",         "--trials",  "2",
                                       "--memory-limit", "20GiB",      "--lengths", "512:1000000,2048:1"};
  const Answer text = run_cli(asked);
  CHECK(text.status == 10);
  CHECK(text.out.starts_with("does not fit: with samples of 2048 tokens alone out of memory in step 0, "));
  CHECK(text.out.find("; none of 4 processes runs out of memory in 300 steps whose lengths vary\n") !=
        std::string::npos);
  // Expandable segments alone do not make the longest fit.
  CHECK(text.out.find("--alloc-conf expandable_segments:True would fit") == std::string::npos);
}

TEST_CASE("what --lengths and a file of --rank-seq take") {
  const auto refused = [](const std::string& lengths) {
    const Answer answer = run_cli({"plan", "llama-tiny", "--gpus", "4", "--batch", "4", "--lengths", lengths});
    CHECK(answer.status != 0);
    return answer.err;
  };
  CHECK(refused("2048").find("2048:1 is that length alone") != std::string::npos);
  CHECK(refused("512:-1").find("no such file") == std::string::npos);
  CHECK(refused("512:-1").find("512:-1") != std::string::npos);
  CHECK(refused("no-such.txt").find("a histogram of LENGTH:WEIGHT") != std::string::npos);
  const TemporaryFolder folder;
  const std::string file = folder.write("lengths.txt", "# rank 0 first\n1024\n\n512  # short\n1024\n1024\n");
  const auto plan = [&](const std::string& lengths) {
    return run_cli({"plan", "llama-tiny", "--gpus", "4", "--batch", "4", "--seq", "1024", "--rank-seq", lengths});
  };
  const Answer of_file = plan("@" + file);
  CHECK(of_file.status == 0);
  CHECK(of_file.out == plan("1=512").out);
  const Answer few = plan("@" + folder.write("few.txt", "1024\n"));
  CHECK(few.err.find("1 lengths, the job has 4 ranks") != std::string::npos);
}
