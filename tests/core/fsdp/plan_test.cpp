// What the settings decide once for each unit: dtypes, lists, reshard; and which settings are refused.
#include <algorithm>

#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

TEST_CASE("effective dtypes") {
  const std::vector<Unit> units = small_units(1);
  const auto plan = [&](std::optional<DType> param, std::optional<DType> reduce) {
    Settings s = four_gpus();
    s.param_dtype = param;
    s.reduce_dtype = reduce;
    return plan_units(s, units, 132).value()[1].groups.at(0);
  };
  const ParamGroupPlan plain = plan({}, {});
  CHECK_FALSE((plain.casts || plain.casts_gradients || plain.casts_back));
  const ParamGroupPlan mixed = plan(DType::bfloat16, DType::float32);
  CHECK((mixed.casts && mixed.casts_gradients && !mixed.casts_back));
  CHECK(mixed.gather == 4 * (16 + 2) * 2);
  CHECK(mixed.flat_cast == (16 + 2) * 2);
  CHECK(mixed.parameters[0].accumulated == 64 * 4);
  const ParamGroupPlan low = plan(DType::bfloat16, {});  // reduced in the gradients' dtype, then cast back
  CHECK((low.casts && !low.casts_gradients && low.casts_back));
  const ParamGroupPlan same = plan(DType::bfloat16, DType::bfloat16);  // reduce = param dtype: none of its own
  CHECK((same.casts && !same.casts_gradients && same.casts_back));
  const ParamGroupPlan only_reduce = plan({}, DType::bfloat16);
  CHECK((!only_reduce.casts && only_reduce.casts_gradients && only_reduce.casts_back));
}

// A group of 16 × 4, in float8, and 8: one byte and two an element.
TEST_CASE("weights in float8 are gathered in one byte an element, and reduced as the others") {
  std::vector<Unit> units = small_units(2);
  for (std::size_t i = 1; i < units.size(); ++i) units[i].parameters[0].gathered_in_float8 = true;
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  CHECK_FALSE(plan_units(s, units, 132));
  s.float8_all_gather = true;
  const auto plans = plan_units(s, units, 132).value();
  const ParamGroupPlan& group = plans[2].groups.at(0);
  CHECK(group.gather == 4 * (16 + 2 * 2));
  CHECK(group.flat_cast == 2 * 2);  // a float8 weight is cast straight into the block
  CHECK(group.parameters[0].unsharded == 64);
  CHECK(group.parameters[0].gradient == 64 * 2);
  CHECK(group.parameters[0].reduce_chunk == 16 * 4);
  CHECK((group.float8_weights == 1 && group.first_float8 == 1 && group.parameters[0].float8_place == 1));
  CHECK(plans[0].groups.at(0).float8_weights == 0);
  s.all_gather = Transport::low_contention;
  s.reduce_scatter = Transport::pull_reduce;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  const ParamGroupPlan own = plan_units(s, units, 132).value()[2].groups.at(0);
  CHECK(own.parameters[1].offset == 256);
  CHECK(own.contiguous == 256 + 8 * 2);
  CHECK(own.reduces_gradients);
}

TEST_CASE("parameters that are cut along another dimension") {
  std::vector<Unit> units = small_units(1);  // layers.0.a: 16 × 4
  units[1].parameters[0].shard_dim = 1;
  Settings s = four_gpus();
  CHECK(plan_units(s, units, 132).value()[1].groups[0].parameters[0].rechunks);
  // Nothing is read or written in place: the block is rank-major, and gradients are copied in.
  s.all_gather = Transport::low_contention;
  s.reduce_scatter = Transport::pull_reduce;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  const ParamGroupPlan own = plan_units(s, units, 132).value()[1].groups[0];
  CHECK(own.contiguous == 0);
  CHECK_FALSE(own.reduces_gradients);
  units[1].parameters[0].shard_dim = 0;
  const ParamGroupPlan in_place = plan_units(s, units, 132).value()[1].groups[0];
  CHECK(in_place.contiguous > 0);
  CHECK(in_place.reduces_gradients);
  units[1].parameters[0].shard_dim = 1;
  s = four_gpus();
  s.reshard_after_forward = {Reshard::Kind::group, 2};
  const auto kept = plan_units(s, units, 132);
  REQUIRE_FALSE(kept);
  CHECK(kept.error().what.find("'layers.0.a' is sharded along dimension 1, with reshard_after_forward=2") == 0);
  s = four_gpus();
  s.gpus = 3;
  const auto uneven = plan_units(s, units, 132);
  REQUIRE_FALSE(uneven);
  CHECK(uneven.error().what.find("dimension 1 of 'layers.0.a' has 4 elements, which 3 ranks do not divide") == 0);
  s.gpus = 1;
  CHECK_FALSE(plan_units(s, units, 132).value()[1].groups[0].parameters[0].rechunks);
}

TEST_CASE("experts are a group over the rest of the mesh, prefetched behind the unit around them") {
  std::vector<Unit> units = small_units(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    Parameter experts{fmt::format("layers.{}.experts.w", i), {4, 8}, DType::float32};
    experts.expert_parallel = true;
    units.insert(units.begin() + 2 + 2 * i, {fmt::format("layers.{}.experts", i), {experts}});
  }
  Settings s = four_gpus();
  s.expert_parallel = 2;
  s.forward_prefetch = s.backward_prefetch = 1;
  const auto plans = plan_units(s, units, 132).value();
  CHECK(plans[1].groups[0].shard_ranks == 4);
  CHECK(plans[2].groups[0].shard_ranks == 2);
  CHECK(plans[2].groups[0].gather == 4 * 8 * 4);
  CHECK(plans[2].groups[0].flat_cast == 2 * 8 * 4);
  CHECK(plans[1].forward_prefetch == std::vector{UnitId{3}, UnitId{4}});
  CHECK(plans[2].forward_prefetch.empty());
  CHECK(plans[3].backward_prefetch == std::vector{UnitId{1}, UnitId{2}});
  CHECK(plans[4].backward_prefetch.empty());

  units[1].parameters.push_back(units[2].parameters[0]);  // experts beside others in one group
  const auto mixed = plan_units(s, units, 132);
  REQUIRE_FALSE(mixed);
  CHECK(mixed.error().what.find("different meshes") != std::string::npos);
  units[1].parameters.pop_back();
  s.gpus = 16;
  const auto thin = plan_units(s, units, 132);  // 4 experts of each rank over 8 ranks
  REQUIRE(thin);
  CHECK(thin->at(2).groups[0].parameters[0].rechunks);
  CHECK(thin->at(2).groups[0].flat_cast == 4 * 1 * 4);
  s.gpus = 4;
  units[1].parameters.push_back(units[2].parameters[0]);
  s.pytorch = "2.12";
  units[1].groups = {2, 1};
  CHECK(plan_units(s, units, 132).value()[1].groups[1].shard_ranks == 2);
}

TEST_CASE("frozen parameters are gathered, and exempt from the rule of one dtype") {
  std::vector<Unit> units = small_units(1);
  units[1].parameters[0].dtype = DType::bfloat16;
  units[1].parameters[0].requires_grad = false;
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  const ParamGroupPlan plan = plan_units(s, units, 132).value()[1].groups.at(0);
  CHECK(plan.gather == 4 * (16 + 2) * 2);
  CHECK(plan.original == DType::float32);  // of the trained one
  CHECK((plan.casts && plan.casts_gradients && !plan.casts_back));
}

TEST_CASE("our own reduce-scatter sends gradients as they are where the sums are wider") {
  const std::vector<Unit> units = small_units(1);
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  const auto plan = [&] { return plan_units(s, units, 132).value()[1].groups.at(0); };
  const auto sent_bytes = [&] { return plan().parameters[0].sent_chunk; };
  CHECK(sent_bytes() == 64 / 4 * 4);
  s.reduce_scatter = Transport::pull_reduce;
  CHECK(plan().sent == DType::bfloat16);
  CHECK(plan().reduce == DType::float32);
  CHECK(sent_bytes() == 64 / 4 * 2);
  CHECK(plan().parameters[0].reduce_chunk == 64 / 4 * 4);
  s.reduce_dtype = DType::float16;  // bfloat16 values that float16 lacks
  CHECK(plan().sent == DType::float16);
  s.reduce_dtype = DType::float32;
  s.nodes = 2;  // NCCL serves the group, and sums what it sends
  CHECK(plan().sent == DType::float32);
  s.replicate = 2;  // one group a node again
  CHECK(plan().sent == DType::bfloat16);
}

TEST_CASE("gradients are summed where the transport knows only sums, else averaged") {
  const auto collective = [](Transport transport) {
    Settings s = four_gpus();
    s.reduce_scatter = transport;
    Bench bench(s, 1);
    bench.forward();
    bench.backward();
    const auto all = bench.take_all();
    return *std::find_if(all.begin(), all.end(),
                         [](const std::string& line) { return line.starts_with("collective RS 1"); });
  };
  for (const Transport transport : {Transport::symmetric, Transport::copy_engine})
    CHECK(collective(transport) == "collective RS 1 shard RS 288 sum");
  for (const Transport transport :
       {Transport::nccl, Transport::nccl_registered, Transport::low_contention, Transport::pull_reduce})
    CHECK(collective(transport) == "collective RS 1 shard RS 288");
}

TEST_CASE("before 2.12 a unit has one parameter group") {
  std::vector<Unit> units = small_units(1);
  units[1].groups = {1, 1};
  Settings settings = four_gpus();
  const auto refused = plan_units(settings, units, 132);
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().what == "unit 'layers.0' has 2 parameter groups, and PyTorch 2.11 makes one a unit");
  units[1].groups = {2};
  CHECK(plan_units(settings, units, 132));
  units[1].groups = {1, 1};
  settings.pytorch = "2.12";
  CHECK(plan_units(settings, units, 132));
}

TEST_CASE("parameter groups of a unit are planned apart, and gathered and reduced one after another") {
  std::vector<Unit> units = small_units(1);
  units[1].groups = {1, 1};
  Settings settings = four_gpus();
  settings.pytorch = "2.12";
  Bench bench(settings, units);
  REQUIRE(bench.plans[1].groups.size() == 2);
  CHECK(bench.plans[1].groups[0].gather == 256);
  CHECK(bench.plans[1].groups[1].gather == 32);
  CHECK(bench.plans[1].groups[1].parameters[0].id == ParameterId{2});
  bench.forward();
  const std::vector<std::string> forward = bench.take();
  const std::vector<std::string> block{
      "a AG 1 256 CI",  "a U 1.0 256 cur",     "a ms 1 48 cur", "f ms 1", "f AG 0",  "a AG 1[pg=1] 32 CI",
      "a U 1.1 32 cur", "a ms 1[pg=1] 48 cur", "f ms 1[pg=1]",  "f AG 1", "f U 1.0", "f U 1.1"};
  CHECK(std::search(forward.begin(), forward.end(), block.begin(), block.end()) != forward.end());
  bench.backward();
  bench.zero_grad();
  CHECK(bench.backend.live() == 0);
}

TEST_CASE("an int reshard of 1 keeps parameters, of the whole group frees them, else it must divide") {
  Settings s = four_gpus();
  const std::vector<Unit> units = small_units(1);
  const auto kind = [&](std::uint32_t group) {
    s.reshard_after_forward = {Reshard::Kind::group, group};
    return plan_units(s, units, 132).value()[1].reshard.kind;
  };
  CHECK(kind(1) == Reshard::Kind::never);
  CHECK(kind(2) == Reshard::Kind::group);
  CHECK(kind(4) == Reshard::Kind::always);
  for (const std::uint32_t bad : {0U, 3U, 8U}) {
    s.reshard_after_forward = {Reshard::Kind::group, bad};
    const auto refused = plan_units(s, units, 132);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::usage);
    CHECK_FALSE(refused.error().hint.empty());
  }
}

TEST_CASE("a prefetch list that names no unit is refused by name") {
  Settings s = four_gpus();
  s.prefetch_lists.forward["layers.0"] = {"layers.7"};
  const auto refused = plan_units(s, small_units(2), 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().text().find("layers.7") != std::string::npos);
  CHECK(refused.error().text().find("layers.0") != std::string::npos);
}

TEST_CASE("counted prefetch stops at either end and leaves the root out") {
  Settings s = four_gpus();
  s.forward_prefetch = 2;
  s.backward_prefetch = 2;
  const auto plans = plan_units(s, small_units(4), 132).value();
  CHECK(plans[0].forward_prefetch.empty());
  CHECK(plans[1].forward_prefetch == std::vector<UnitId>{UnitId{2}, UnitId{3}});
  CHECK(plans[3].forward_prefetch == std::vector<UnitId>{UnitId{4}});
  CHECK(plans[4].forward_prefetch.empty());
  CHECK(plans[1].backward_prefetch.empty());
  CHECK(plans[2].backward_prefetch == std::vector<UnitId>{UnitId{1}});
  CHECK(plans[4].backward_prefetch == std::vector<UnitId>{UnitId{3}, UnitId{2}});
}

}  // namespace
}  // namespace foreshard::test
