// Who waits for whom, drawn.
#include "viz/graph/hang_graph.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

constexpr const char* kHang = R"({"world":8,"dead":[{"rank":5,"from_step":2}],"ranks":[
  {"ranks":[4,6,7],"waits":[{"collective":"all-gather of \"x\"","communicator":"shard","ranks":4,"absent":[5],
    "issued_ns":1}],"host_stands_at":"launch queue","host_step":2},
  {"ranks":[0,1,2,3],"waits":[{"collective":"all-reduce of layers.0","communicator":"replicate","ranks":2,
    "absent":[4,5,6,7],"issued_ns":2}],"host_stands_at":"device","host_step":3}],
  "whole_steps":2,"last_whole_step_end_ns":9})";

std::optional<std::string> dot_of(const std::string& hang) {
  Run run;
  run.info.kind = RunKind::planned;
  run.results["hang"] = hang;
  return hang_dot(run, "a job");
}

}  // namespace

TEST_CASE("ranks that wait, and what they wait for, are nodes and edges") {
  const auto dot = dot_of(kHang);
  REQUIRE(dot);
  CHECK(dot->find(R"(r0 [label="rank 5\nissues nothing from step 2 on")") != std::string::npos);
  CHECK(dot->find(R"(r1 [label="ranks 4, 6–7 (3)\nhost at launch queue, step 2")") != std::string::npos);
  CHECK(dot->find(R"(r1 -> r0 [label="all-gather of \"x\"\nshard, 4 ranks"])") != std::string::npos);
  // One edge to each group, not to each rank.
  CHECK(dot->find(R"(r2 -> r0 [label="all-reduce of layers.0\nreplicate, 2 ranks"])") != std::string::npos);
  const std::size_t edge = dot->find("r2 -> r1 ");
  REQUIRE(edge != std::string::npos);
  CHECK(dot->find("r2 -> r1 ", edge + 1) == std::string::npos);
}

TEST_CASE("a run that does not hang, and an answer that cannot be read, have no such graph") {
  CHECK_FALSE(hang_dot(Run(), "a job"));
  for (const char* text : {"null", "", "[", "{}", R"({"dead":[{"rank":-1}],"ranks":[]})", R"({"dead":{},"ranks":3})",
                           R"({"dead":[],"ranks":[{"ranks":"x"}]})"})
    CHECK_FALSE(dot_of(text));
}
