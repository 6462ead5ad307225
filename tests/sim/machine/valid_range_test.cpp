#include "sim/machine/valid_range.hpp"

#include "tests/catch.hpp"
#include "tests/sim/machine/profile_text.hpp"

namespace foreshard::sim {
namespace {

MachineProfile covering(const std::string& valid_range) {
  const auto profile =
      parse_profile(R"({"schema": 2, "name": "m", "extends": "h200", "valid_range": )" + valid_range + "}", "m");
  if (!profile) FAIL(profile.error().text());
  return *profile;
}

Error refused(const std::string& valid_range) {
  return error_of(R"({"schema": 2, "name": "m", "extends": "h200", "valid_range": )" + valid_range + "}");
}

const MachineUse kUse{.largest_collective = 64 * kMiB,
                      .ranks = {1, 4},
                      .nodes = 1,
                      .dtypes = {DType::bfloat16},
                      .transports = {Transport::nccl},
                      .kernels = {KernelClass::gemm}};

TEST_CASE("a plan inside the covered range gets no warning") {
  const MachineProfile all = covering(R"({"bytes": [65536, 67108864], "ranks": [2, 4], "nodes": [1, 1],
    "dtypes": ["bfloat16"], "transports": ["nccl"], "kernels": ["gemm", "attention"], "source": "test"})");
  CHECK(outside(all.valid_range, "m", kUse).empty());
  CHECK(outside(covering(R"({"source": "an axis that is left out is not limited"})").valid_range, "m", kUse).empty());
}

TEST_CASE("each axis on which a plan leaves the range gets a sentence") {
  const MachineProfile narrow = covering(R"({"bytes": [65536, 1048576], "ranks": [8, 16], "nodes": [2, 4],
    "dtypes": ["float32"], "transports": ["symmetric"], "kernels": ["attention"], "source": "test"})");
  const auto warnings = outside(narrow.valid_range, "m", kUse);
  REQUIRE(warnings.size() == 6);
  CHECK(warnings[0] == "outside what profile m was calibrated on: a collective of 64 MiB; it covers up to 1 MiB");
  CHECK(warnings[1] == "outside what profile m was calibrated on: collectives of 4 ranks; it covers 8 to 16");
  CHECK(warnings[2] == "outside what profile m was calibrated on: 1 nodes; it covers 2 to 4");
  CHECK(warnings[5] == "outside what profile m was calibrated on: gemm kernels");
}

TEST_CASE("wrong ranges are refused with their place") {
  CHECK(refused(R"({"bytes": [2, 1], "source": "x"})").where == "machine.json /valid_range/bytes");
  CHECK(refused(R"({"ranks": [2], "source": "x"})").where == "machine.json /valid_range/ranks");
  CHECK(refused(R"({"nodes": [-1, 2], "source": "x"})").where == "machine.json /valid_range/nodes");
  CHECK(refused(R"({"nodes": [1, 99999999999], "source": "x"})").where == "machine.json /valid_range/nodes");
  CHECK(refused(R"({"transports": ["ncll"], "source": "x"})").hint == "did you mean 'nccl'?");
  CHECK(refused(R"({"dtypes": "bfloat16", "source": "x"})").what == "a list of names is expected here");
  CHECK(refused(R"({"ranks": [2, 4]})").what == "a constant needs a source");
  CHECK(refused(R"({"rank": [2, 4], "source": "x"})").hint == "did you mean 'ranks'?");
}

}  // namespace
}  // namespace foreshard::sim
