#include "sim/sweep/ranges.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using Values = std::vector<std::string>;

namespace {
Values values(std::string_view key, std::string_view text) {
  const auto parsed = parse_range(key, text);
  INFO((parsed ? std::string() : parsed.error().text()));
  REQUIRE(parsed);
  return *parsed;
}
}  // namespace

TEST_CASE("comma lists and ranges of every kind of setting") {
  CHECK(values("forward_prefetch", "implicit,1..4") == Values{"implicit", "1", "2", "3", "4"});
  CHECK(values("reshard_after_forward", "true,false,2,4") == Values{"true", "false", "2", "4"});
  CHECK(values("all_gather", "nccl,copy-engine") == Values{"nccl", "copy-engine"});
  CHECK(values("batch", "8") == Values{"8"});
  CHECK(values("batch", "3..3") == Values{"3"});
  CHECK(values("unshard_async", "false,true") == Values{"false", "true"});
  CHECK(values("param_dtype", "none,bfloat16") == Values{"none", "bfloat16"});
}

TEST_CASE("where commas are part of a value it is taken whole") {
  CHECK(values("alloc_conf", "expandable_segments:True,max_split_size_mb:200").size() == 1);
  CHECK(values("release", "all-gather=stash,reduce-scatter=record-stream").size() == 1);
  CHECK(values("release", "stash,record-stream").size() == 2);
  CHECK(values("reshard_of_unit", "layers.0=true,false") == Values{"layers.0=true", "layers.0=false"});
}

TEST_CASE("wrong values and ranges are refused with what is accepted") {
  CHECK(parse_range("all_gather", "nccl,copy-engin").error().hint == "did you mean 'copy-engine'?");
  for (const char* text : {"4..1", "a..3", "..3", "1..", "1...3", ",1", "1,", "", "1..2..3", "-1..2", "0..2"}) {
    INFO(text);
    const auto parsed = parse_range("batch", text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().kind == ErrorKind::usage);
  }
  CHECK_FALSE(parse_range("batch", "1..4000000000"));
  CHECK_FALSE(parse_range("bach", "1"));
}

TEST_CASE("ranges add up, one for each unit, without repetition") {
  std::vector<Range> ranges;
  add_values(ranges, "batch", {"1", "2"});
  add_values(ranges, "reshard_of_unit", {"layers.0=true", "layers.0=false"});
  add_values(ranges, "reshard_of_unit", {"layers.1=2"});
  add_values(ranges, "batch", {"2", "4"});
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].values == Values{"1", "2", "4"});
  CHECK(count_points(ranges).value() == 6);
  CHECK(values_at(ranges, 0) == Values{"1", "layers.0=true", "layers.1=2"});
  CHECK(values_at(ranges, 1) == Values{"1", "layers.0=false", "layers.1=2"});
  CHECK(values_at(ranges, 5) == Values{"4", "layers.0=false", "layers.1=2"});
  CHECK(count_points({}).value() == 1);
}

TEST_CASE("two names of one value make one point") {
  std::vector<Range> ranges;
  CHECK(add_values(ranges, "optimizer", {"adam-fused", "adamw-fused", "sgd"}) ==
        Values{"adamw-fused (which is adam-fused)"});
  CHECK(add_values(ranges, "optimizer", {"sgd", "adamw-fused"}) == Values{"sgd", "adamw-fused (which is adam-fused)"});
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].values == Values{"adam-fused", "sgd"});
}

TEST_CASE("points are settings, or the reason why they contradict each other") {
  const std::vector<Range> ranges{{"gpus", {"4", "6"}}, {"replicate", {"1", "4"}}};
  CHECK(settings_at({}, ranges, 1)->replicate == 4);
  CHECK(settings_at({}, ranges, 2)->gpus == 6);
  CHECK(settings_at({}, ranges, 3).error().what == "replicate 4 does not divide the 6 GPUs");
}

TEST_CASE("a point whose rank has all experts sees no imbalance, and was asked for with one") {
  const std::vector<Range> ranges{{"gpus", {"8"}}, {"expert_parallel", {"1", "4"}}, {"router_imbalance", {"1", "2"}}};
  CHECK(settings_at({}, ranges, 1)->router_imbalance == 1);
  CHECK(router_imbalance_at({}, ranges, 1) == 2);
  CHECK(settings_at({}, ranges, 3)->router_imbalance == 2);
  CHECK(router_imbalance_at({}, ranges, 3) == 2);
  const std::vector<Range> alone{{"router_imbalance", {"2"}}};
  CHECK(settings_at({}, alone, 0).error().what.starts_with("router_imbalance 2 without expert_parallel"));
}

TEST_CASE("a GEMM without end is refused") {
  Range wide{"batch", {}};
  for (int i = 1; i <= 2000; ++i) wide.values.push_back(std::to_string(i));
  const std::vector<Range> ranges{wide, {"seq", wide.values}};
  CHECK_FALSE(count_points(ranges));
}
