// Element counts and rows from padded storages and gradients.
#include "traces/infer/parameters.hpp"

#include "core/shard/layout.hpp"
#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

ElementTypes float32_over(std::uint32_t ranks) {
  ElementTypes types;
  types.ranks = ranks;
  return types;
}

/// A unit whose parameters have these shapes, and which reduces the gradients of the named ones.
RecordedUnit unit_of(const std::vector<std::vector<std::int64_t>>& shapes, const std::vector<bool>& trained,
                     std::uint32_t ranks) {
  RecordedUnit unit;
  unit.name = "layers.0";
  unit.reduces = true;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Parameter parameter{"", shapes[i]};
    const Bytes padded = unsharded_numel(parameter, {ranks, 0}) * 4;
    unit.gather.unsharded.push_back(padded);
    unit.gather.block += padded;
    if (!trained[i]) continue;
    unit.reduction.input += padded;
    unit.reduction.gradients.push_back(parameter.numel() * 4);
  }
  unit.reduction.count = unit.reduction.gradients.size();
  return unit;
}

TEST_CASE("padding shows the rows of a parameter") {
  CHECK(elements_per_row(5003 * 5003, 1251 * 5003, 4) == 5003);
  CHECK(elements_per_row(7, 2, 4) == 1);
  CHECK(elements_per_row(8, 2, 4) == 2);
  CHECK(elements_per_row(9, 2, 4) == 0);
  CHECK(elements_per_row(0, 2, 4) == 0);
  CHECK(elements_per_row(4, 0, 4) == 0);
}

TEST_CASE("rows that were found have the recorded padding") {
  for (const std::uint32_t ranks : {2U, 3U, 4U, 8U})
    for (std::int64_t rows = 1; rows < 40; ++rows)
      for (const std::int64_t row : {1, 2, 6, 35}) {
        const Parameter parameter{"", {rows, row}};
        const std::uint64_t shard = padded_shard_numel(parameter, {ranks, 0});
        const std::uint64_t found = elements_per_row(parameter.numel(), shard, ranks);
        REQUIRE(found > 0);
        const auto columns = static_cast<std::int64_t>(found);
        const Parameter again{"", {static_cast<std::int64_t>(parameter.numel()) / columns, columns}};
        CHECK(padded_shard_numel(again, {ranks, 0}) == shard);
      }
}

TEST_CASE("gradients say which parameters are trained, padded ones included") {
  const std::vector<std::vector<std::int64_t>> shapes{{6, 10}, {7, 33}, {64, 8}, {3, 5}, {64, 8}};
  const std::vector<bool> trained{false, true, true, true, false};
  const std::vector<RecordedUnit> units{RecordedUnit{}, unit_of(shapes, trained, 4)};
  const InferredParameters found = infer_parameters(units, float32_over(4));
  CHECK(found.why_not.empty());
  REQUIRE(found.units.size() == 2);
  REQUIRE(found.units[1].parameters.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    INFO(i);
    CHECK(found.units[1].parameters[i].requires_grad == trained[i]);
    if (trained[i]) CHECK(found.units[1].parameters[i].numel() == Parameter{"", shapes[i]}.numel());
  }
  CHECK(found.frozen == 2);
  CHECK(found.units[1].parameters[1].shape == std::vector<std::int64_t>{7, 33});
  CHECK(found.units[1].parameters[1].name == "layers.0.p1");
  CHECK(found.alike == 0);  // the frozen 64 x 8 comes behind another gradient
}

TEST_CASE("a frozen parameter beside a trained one of its size is not told from it") {
  const std::vector<std::vector<std::int64_t>> shapes{{64, 8}, {64, 8}, {6, 10}};
  for (const std::vector<bool>& trained : {std::vector{true, false, true}, std::vector{false, true, true}}) {
    const std::vector<RecordedUnit> units{RecordedUnit{}, unit_of(shapes, trained, 4)};
    const InferredParameters found = infer_parameters(units, float32_over(4));
    CHECK(found.why_not.empty());
    CHECK(found.frozen == 1);
    CHECK(found.alike == 1);
  }
}

TEST_CASE("sizes that fit no shard group say so") {
  RecordedUnit unit = unit_of({{8, 8}}, {true}, 4);
  SECTION("bytes that the ranks do not divide") {
    unit.gather.unsharded[0] = 255;
    CHECK(infer_parameters({{RecordedUnit{}, unit}}, float32_over(4)).why_not.find("255 bytes") != std::string::npos);
  }
  SECTION("gradients of no parameter") {
    unit.reduction.gradients[0] = 12;
    CHECK(infer_parameters({{RecordedUnit{}, unit}}, float32_over(4)).why_not.find("no selection") !=
          std::string::npos);
  }
  SECTION("no gather") {
    unit.gather = {};
    CHECK(infer_parameters({{RecordedUnit{}, unit}}, float32_over(4)).why_not.find("no all-gather") !=
          std::string::npos);
  }
  SECTION("no ranks") {
    CHECK(infer_parameters({{RecordedUnit{}, unit}}, ElementTypes{}).why_not.find("how many ranks") !=
          std::string::npos);
  }
  SECTION("nothing at all") {
    CHECK(infer_parameters({}, float32_over(4)).why_not == "no unit has a parameter");
  }
}

}  // namespace
}  // namespace foreshard::traces
