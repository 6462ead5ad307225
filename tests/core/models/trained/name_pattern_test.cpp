#include "core/models/name_pattern.hpp"

#include "tests/catch.hpp"

namespace foreshard::model {
namespace {

TEST_CASE("a pattern stands for whole components, anywhere in a name") {
  CHECK(names("wq", "layers.3.wq.weight"));
  CHECK(names("layers.3", "model.layers.3.mlp.up_proj.weight"));
  CHECK(names("layers.3.wq.weight", "layers.3.wq.weight"));
  CHECK_FALSE(names("layers.3", "layers.31.wq.weight"));
  CHECK_FALSE(names("norm", "layers.0.attn_norm.weight"));
  CHECK_FALSE(names("layers.0.wq.weight.more", "layers.0.wq.weight"));
  CHECK_FALSE(names("", "tok.weight"));
  CHECK(names("tok", "tok.weight"));
}

TEST_CASE("ranges, stars and question marks within a component") {
  CHECK(names("layers.0-7", "layers.0.wq.weight"));
  CHECK(names("layers.0-7", "layers.7.wq.weight"));
  CHECK_FALSE(names("layers.0-7", "layers.8.wq.weight"));
  CHECK_FALSE(names("layers.7-0", "layers.3.wq.weight"));
  CHECK(names("*norm*", "layers.0.attn_norm.weight"));
  CHECK(names("layers.*.w?", "layers.12.wk.weight"));
  CHECK_FALSE(names("layers.*.w?", "layers.12.norm.weight"));
  CHECK(names("*", "head.weight"));
  CHECK(names("a-b", "x.a-b.weight"));  // no numbers: as it stands
  CHECK_FALSE(names("0-99999999999999999999999", "layers.3.w"));
  CHECK(names("*a*b*", "xxaxxbxx"));
  CHECK_FALSE(names("*a*b", "xxaxxbxx"));
}

TEST_CASE("the end of a name, as target_modules takes it") {
  CHECK(names_end("q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_end("self_attn.?_proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_end("self_attn", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_end("a.b.c", "b.c"));
}

}  // namespace
}  // namespace foreshard::model
