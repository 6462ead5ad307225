#include "sim/machine/profile.hpp"

#include "tests/catch.hpp"
#include "tests/sim/machine/profile_text.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("the built-in profile reads back its numbers, each with a source") {
  const Result<MachineProfile> profile = builtin_profile("h200");
  REQUIRE(profile);
  CHECK(profile->name == "h200");
  CHECK(profile->sm_count == 132);
  CHECK(profile->memory_total == 143155 * kMiB);
  CHECK(profile->peaks.matrix_bfloat16 == Approx(989.4e12));
  CHECK(profile->peaks.l2 == 60 * kMiB);
  CHECK(profile->launch_queue == 1050);
  CHECK(profile->latencies.kernel_gap == Nanoseconds{1450});
  CHECK(profile->latencies.communicator_gap == Nanoseconds{6000});
  REQUIRE(profile->collectives.size() >= 8);
  CHECK(profile->collectives[0].ranks_per_node == 4);
  CHECK(profile->sources.size() > 40);
}

TEST_CASE("every built-in profile reads, is called by its name and has a source for each constant") {
  CHECK(builtin_profile_names().size() == 7);
  for (const std::string_view name : builtin_profile_names()) {
    INFO(name);
    const Result<MachineProfile> profile = builtin_profile(name);
    if (!profile) FAIL(profile.error().text());
    CHECK(profile->name == name);
    CHECK(profile->memory_total < 192 * kGiB);
    CHECK(profile->rates.hbm < profile->peaks.memory_bandwidth);
    CHECK(profile->rates.gemm_bf16 < profile->peaks.matrix_bfloat16);
    CHECK_FALSE(profile->valid_range.source.empty());
    for (const auto& [place, source] : profile->sources) {
      INFO(place);
      CHECK(source.size() > 5);
    }
  }
}

TEST_CASE("plans hold as many SMs for pull-reduce as the GPU back end launches CTAs, where a profile says no other") {
  for (const std::string_view name : builtin_profile_names())
    for (std::uint32_t ranks = 2; ranks <= kMaxLowContentionRanks; ++ranks)
      for (const bool upcasts : {false, true}) {
        INFO(name << ", " << ranks << " ranks");
        CHECK(builtin_profile(name)->contention.own_reduce.of(ranks, upcasts) == PullReduceCtas{}.of(ranks, upcasts));
      }
  const std::string other = replaced(h200(), R"("two_ranks": {"value": 12,)", R"("two_ranks": {"value": 20,)");
  CHECK(parse_profile(other, "machine.json")->contention.own_reduce.of(2, false) == 20);
}

TEST_CASE("a GPU's name as CUDA gives it finds its profile") {
  const auto of = [](std::string_view gpu) { return builtin_profile_of(gpu).value_or("none"); };
  CHECK(of("NVIDIA H200") == "h200");
  CHECK(of("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(of("NVIDIA H100 SXM5 96GB") == "h100-96");
  CHECK(of("NVIDIA A100-SXM4-80GB") == "a100");
  CHECK(of("NVIDIA A100-SXM4-40GB") == "a100-40");
  CHECK(of("NVIDIA B200") == "b200");
  CHECK(of("NVIDIA GH200 480GB") == "none");
  CHECK(of("NVIDIA L40S") == "none");
  CHECK(of("") == "none");
}

TEST_CASE("an unknown profile name is refused with the known ones") {
  CHECK(builtin_profile("h20").error().hint.find("h200") != std::string::npos);
}

TEST_CASE("an unknown key is refused with its place and the nearest known word") {
  const Error error = error_of(replaced(h200(), "\"kernel_gap\"", "\"kernal_gap\""));
  CHECK(error.where == "machine.json /latencies/kernal_gap");
  CHECK(error.what.find("kernal_gap") != std::string::npos);
  CHECK(error.hint.find("kernel_gap") != std::string::npos);
}

TEST_CASE("wrong values are refused with their place") {
  CHECK(error_of(replaced(h200(), "\"value\": 1050", "\"value\": -3")).where ==
        "machine.json /host/launch_queue/value");
  CHECK(error_of(replaced(h200(), "\"value\": 132", "\"value\": 0")).what == "a number above 0 is expected here");
  CHECK(error_of(replaced(h200(), "\"value\": 132", "\"value\": 131.5")).what == "a count is a whole number");
  CHECK(error_of(replaced(h200(), "\"value\": 132", "\"value\": \"132\"")).where == "machine.json /gpu/sm_count/value");
  CHECK(error_of(replaced(h200(), "\"value\": 132", "\"value\": 1e400")).what ==
        "this JSON cannot be read: number overflow parsing '1e400'");
  CHECK(error_of(replaced(h200(), "{\"value\": 1050, ", "{")).what == "'value' is missing");
  CHECK(error_of(replaced(h200(), "\"value\": 1024, \"unit\": \"MiB\"", "\"value\": 143155, \"unit\": \"MiB\"")).what ==
        "no memory would be left");
  CHECK(error_of(replaced(h200(), "\"kind\": \"all-gather\"", "\"kind\": \"allgather\"")).hint.find("all-gather") !=
        std::string::npos);
  CHECK(error_of(replaced(h200(), "[262144, 32.721]", "[2621, 32.721]")).where ==
        "machine.json /collectives/0/bytes_us/1");
  CHECK(error_of(replaced(h200(), "\"ranks\": 2", "\"ranks\": 4")).where == "machine.json /collectives/2");
  CHECK(error_of(replaced(h200(), "\"ranks\": 2", "\"ranks\": 2, \"ranks_per_node\": 3")).where ==
        "machine.json /collectives/2/ranks_per_node");
}

TEST_CASE("a compute capability is ten times major and minor") {
  CHECK(parse_profile(h200(), "machine.json")->gpu().compute_capability == 90);
  CHECK(builtin_profile("a100")->gpu().compute_capability == 80);
  CHECK(builtin_profile("b200")->gpu().compute_capability == 100);
  const std::string_view place = "machine.json /gpu/compute_capability/value";
  CHECK(error_of(replaced(h200(), "{\"value\": 90, ", "{\"value\": 9, ")).where == place);
  CHECK(error_of(replaced(h200(), "{\"value\": 90, ", "{\"value\": 900, ")).where == place);
}

TEST_CASE("a number far beyond any machine is refused: most likely its unit is another") {
  const Error fast = error_of(replaced(h200(), "\"value\": 4800", "\"value\": 4800000"));
  CHECK(fast.where == "machine.json /gpu/memory_bandwidth/value");
  CHECK(fast.what == "4800000 GB/s is more than any machine has");
  CHECK(fast.hint == "at most 100000: is the unit right?");
}

TEST_CASE("a number far below any machine is refused, so that no price becomes endless") {
  const Error slow = error_of(replaced(h200(), "\"value\": 4800", "\"value\": 1e-300"));
  CHECK(slow.where == "machine.json /gpu/memory_bandwidth/value");
  CHECK(slow.what == "1e-300 GB/s is less than any machine has");
  CHECK(slow.hint == "at least 0.001: is the unit right?");
  CHECK(error_of(replaced(h200(), "[262144, 32.721]", "[262144, 3.7e9]")).where ==
        "machine.json /collectives/0/bytes_us/1");
}

TEST_CASE("a wrong unit is refused with the right one and the conversion") {
  const Error error =
      error_of(replaced(h200(), "\"value\": 4800, \"unit\": \"GB/s\"", "\"value\": 4.8, \"unit\": \"TB/s\""));
  CHECK(error.where == "machine.json /gpu/memory_bandwidth/unit");
  CHECK(error.what == "the unit is 'GB/s', not 'TB/s'");
  CHECK(error.hint == "write 4800 and 'GB/s'");
  CHECK(error_of(replaced(h200(), "143155, \"unit\": \"MiB\"", "143155, \"unit\": \"MB\"")).where ==
        "machine.json /gpu/memory_total/unit");
}

TEST_CASE("a constant without a source is refused") {
  CHECK(error_of(replaced(h200(), "\"source\": \"cudaDevice", "\"quelle\": \"cudaDevice")).where ==
        "machine.json /gpu/sm_count/quelle");
  CHECK(error_of(replaced(h200(), ", \"source\": \"cudaDeviceProp.multiProcessorCount\"", "")).what ==
        "a constant needs a source");
  CHECK(error_of(replaced(h200(), "\"source\": \"cudaDeviceProp.multiProcessorCount\"", "\"source\": \"\"")).where ==
        "machine.json /gpu/sm_count");
  const Error bare = error_of(replaced(
      h200(),
      R"({"value": 132, "unit": "count", "source": "cudaDeviceProp.multiProcessorCount", "fitted_on": "none: documented"})",
      "132"));
  CHECK(bare.what == "a constant is an object");
  CHECK(bare.hint.find("\"value\": 132, \"unit\": \"count\"") != std::string::npos);
}

TEST_CASE("a key twice is refused: a parser would keep either") {
  const Error error = error_of(replaced(h200(), "\"host\": {", "\"gpu\": {}, \"host\": {"));
  CHECK(error.what == "the key 'gpu' occurs twice in one object");
  CHECK(error.where.starts_with("machine.json, line "));
}

TEST_CASE("what is no JSON or no profile is refused, never a crash") {
  CHECK(error_of("{\"schema\": 3,").where == "machine.json, line 1, column 14");
  CHECK(error_of(replaced(h200(), "\"schema\": 4", "\"schema\": 1")).what == "only schemas 2 to 4 are known");
  for (const char* text : {"", "[]", "null", "3", "{}", R"({"schema": 2, "gpu": []})"})
    CHECK_FALSE(parse_profile(text, "machine.json"));
  CHECK_FALSE(error_of(std::string(100000, '[')).what.empty());
  CHECK(error_of(std::string(17 * kMiB, ' ')).what == "is larger than 16 MiB");
  const std::string whole = h200();
  for (std::size_t length = 0; length < whole.size() - 2; length += 97)
    CHECK_FALSE(parse_profile(whole.substr(0, length), "machine.json"));
}

}  // namespace
}  // namespace foreshard::sim
