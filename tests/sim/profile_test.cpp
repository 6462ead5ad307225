#include "sim/machine/profile.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

std::string h200() {
  return std::string(*builtin_profile_json("h200"));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Error error_of(const std::string& json) {
  const Result<MachineProfile> profile = parse_profile(json, "machine.json");
  REQUIRE_FALSE(profile);
  CHECK(profile.error().kind == ErrorKind::usage);
  return profile.error();
}

TEST_CASE("the built-in profile reads back its numbers, each with a source") {
  const Result<MachineProfile> profile = builtin_profile("h200");
  REQUIRE(profile);
  CHECK(profile->name == "h200");
  CHECK(profile->sm_count == 132);
  CHECK(profile->memory_total == 143155 * kMiB);
  CHECK(profile->launch_queue == 1050);
  CHECK(profile->latencies.kernel_gap == Nanoseconds{1450});
  CHECK(profile->latencies.communicator_gap == Nanoseconds{6000});
  CHECK(profile->slowdown(KernelClass::gemm, Neighbour::ring).kernel == 1.38);
  CHECK(profile->slowdown(KernelClass::gather_copy, Neighbour::ring).kernel == 1);
  CHECK(profile->collectives.size() == 9);
  CHECK(profile->sources.size() > 40);
  for (const auto& [place, source] : profile->sources) {
    INFO(place);
    CHECK(source.size() > 5);
  }
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
  CHECK(error_of(replaced(h200(), "143155, \"unit\": \"MiB\"", "143155, \"unit\": \"MB\"")).where ==
        "machine.json /gpu/memory_total/unit");
  CHECK(error_of(replaced(h200(), "\"kind\": \"all-gather\"", "\"kind\": \"allgather\"")).hint.find("all-gather") !=
        std::string::npos);
  CHECK(error_of(replaced(h200(), "[262144, 32.721]", "[2621, 32.721]")).where ==
        "machine.json /collectives/0/bytes_us/1");
  CHECK(error_of(replaced(h200(), "\"ranks\": 2", "\"ranks\": 4")).where == "machine.json /collectives/2");
  CHECK(error_of(replaced(h200(), "\"source\": \"cudaDevice", "\"quelle\": \"cudaDevice")).where ==
        "machine.json /gpu/sm_count/quelle");
}

TEST_CASE("what is no JSON or no profile is refused, never a crash") {
  CHECK(error_of("{\"schema\": 2,").where.find("byte") != std::string::npos);
  for (const char* text : {"", "[]", "null", "3", "{}", R"({"schema": 1})", R"({"schema": 2, "gpu": []})"})
    CHECK_FALSE(parse_profile(text, "machine.json"));
  const std::string whole = h200();
  for (std::size_t length = 0; length < whole.size() - 2; length += 97)
    CHECK_FALSE(parse_profile(whole.substr(0, length), "machine.json"));
}

}  // namespace
}  // namespace foreshard::sim
