// Sizes of copy metadata and of every other buffer of a unit, against those read off the reference runs
// (fsdp2 semantics 2.6, 3.3 and the table of section 9).
#include "core/shard/copy_metadata.hpp"

#include "core/fsdp/unit_plan.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

struct Expected {
  Bytes flat, gather, split, input, cat, output;
};

Unit unit(const char* name, const std::vector<std::vector<std::int64_t>>& shapes) {
  Unit u{name, {}};
  for (const auto& shape : shapes) u.parameters.push_back({"p", shape, DType::float32});
  return u;
}

std::vector<std::vector<std::int64_t>> repeated(const std::vector<std::vector<std::int64_t>>& shapes, int times) {
  std::vector<std::vector<std::int64_t>> out;
  for (int i = 0; i < times; ++i) out.insert(out.end(), shapes.begin(), shapes.end());
  return out;
}

void check(const Settings& settings, const Unit& what, const Expected& expected) {
  const auto plans = plan_units(settings, {what}, 132);
  REQUIRE(plans);
  const ParamGroupPlan& p = plans->front().groups.front();
  std::vector<Bytes> chunks;
  Bytes output = 0;
  for (const ParameterPlan& parameter : p.parameters) {
    chunks.push_back(parameter.reduce_chunk);
    output += parameter.reduce_chunk;
  }
  if (expected.flat > 0) CHECK(p.flat_cast == expected.flat);
  CHECK(p.casts == (expected.flat > 0));
  CHECK(p.gather == expected.gather);
  CHECK(p.split_metadata == expected.split);
  CHECK(output * p.shard_ranks == expected.input);
  CHECK(chunk_cat_metadata_bytes(chunks) == expected.cat);
  CHECK(output == expected.output);
}

Settings four(bool mixed) {
  Settings s;
  s.gpus = 4;
  if (mixed) {
    s.param_dtype = DType::bfloat16;
    s.reduce_dtype = DType::float32;
  }
  return s;
}

TEST_CASE("MLP of 10240, float32") {
  const std::vector<std::int64_t> square{10240, 10240};
  check(four(false), unit("layers.0", {square, square}), {0, 838'860'800, 32'840, 838'860'800, 819'312, 209'715'200});
  check(four(false), unit("", {{10240}, {10240}}), {0, 81'920, 152, 81'920, 192, 20'480});
}

TEST_CASE("MLP of 5003: padded") {
  const std::vector<std::int64_t> square{5003, 5003};
  check(four(false), unit("layers.0", {square, square}), {0, 200'280'096, 32'680, 200'280'096, 195'712, 50'070'024});
  check(four(false), unit("", {{5003}, {5003}}), {0, 40'032, 120, 40'032, 160, 10'008});
}

/// A block of the Llama among the reference runs: dim 2048, hidden 8192, 4 of 16 heads for keys and values.
const std::vector<std::vector<std::int64_t>> kLlamaBlock{{2048}, {2048, 2048}, {512, 2048},  {512, 2048}, {2048, 2048},
                                                         {2048}, {8192, 2048}, {8192, 2048}, {2048, 8192}};
const std::vector<std::vector<std::int64_t>> kLlamaRoot{{128256, 2048}, {2048}, {128256, 2048}};

TEST_CASE("Llama, bfloat16 with float32 reduce") {
  check(four(true), unit("layers.0", kLlamaBlock), {30'410'752, 121'643'008, 30'008, 243'286'016, 238'032, 60'821'504});
  check(four(true), unit("", kLlamaRoot), {262'669'312, 1'050'677'248, 33'216, 2'101'354'496, 2'052'264, 525'338'624});
}

TEST_CASE("Llama on a 2 by 2 mesh") {
  Settings s = four(true);
  s.replicate = 2;
  check(s, unit("layers.0", kLlamaBlock), {60'821'504, 121'643'008, 30'008, 243'286'016, 475'616, 121'643'008});
  check(s, unit("", kLlamaRoot), {525'338'624, 1'050'677'248, 33'760, 2'101'354'496, 4'104'368, 1'050'677'248});
}

TEST_CASE("Llama, two blocks a unit") {
  check(four(true), unit("layers.0, layers.1", repeated(kLlamaBlock, 2)),
        {60'821'504, 243'286'016, 30'312, 486'572'032, 476'048, 121'643'008});
}

TEST_CASE("PyTorch's test Transformer, dim 4096, float32") {
  check(four(false),
        unit("layers.0", {{4096},
                          {4096},
                          {4096, 4096},
                          {4096, 4096},
                          {4096, 4096},
                          {4096, 4096},
                          {4096},
                          {4096},
                          {16384, 4096},
                          {16384},
                          {4096, 16384},
                          {4096}}),
        {0, 805'453'824, 33'240, 805'453'824, 787'168, 201'363'456});
  check(four(false), unit("", {{8, 4096}, {64, 4096}, {4096}, {4096}}),
        {0, 1'212'416, 1'320, 1'212'416, 1'392, 303'104});
}

TEST_CASE("a chunk of no bytes makes no blocks") {
  const std::vector<Bytes> some{0, 2048, 2049};
  CHECK(chunk_cat_metadata_bytes(some) == 8 * (6 * 3 + 3 + 2));
  CHECK(split_metadata_bytes(some, 4, 132) == 8 * (4 * 3 + 3 + 1));
}

TEST_CASE("more SMs, finer metadata") {
  const std::vector<Bytes> chunks{104'857'600, 104'857'600};
  CHECK(split_metadata_bytes(chunks, 4, 132) == 32'840);
  CHECK(split_metadata_bytes(chunks, 4, 264) > split_metadata_bytes(chunks, 4, 132));
}

}  // namespace
}  // namespace foreshard
