#include "core/compare/model_difference.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

Run with_units(std::vector<std::string> names, std::vector<std::int64_t> shape) {
  Run run;
  for (std::string& name : names) {
    Unit& unit = run.units.emplace_back();
    unit.name = std::move(name);
    if (!shape.empty()) unit.parameters.push_back({"w", shape});
  }
  return run;
}

TEST_CASE("runs of one model differ in their settings alone") {
  const Run a = with_units({"", "layers.0", "layers.1"}, {8, 2});
  CHECK(model_difference(a, a) == std::string());
  // Two blocks a unit, of as many elements.
  Run grouped = with_units({"", "layers.0, layers.1"}, {8, 2});
  grouped.units[1].parameters.push_back({"v", {8, 2}});
  CHECK(model_difference(a, grouped) == std::string());
  // The embedding as a unit of its own.
  Run embedding = with_units({"", "layers.0", "layers.1", "tok"}, {8, 2});
  embedding.units[0].parameters.clear();
  CHECK(model_difference(a, embedding) == std::string());
  CHECK(model_difference(a, with_units({"", "layers.0", "layers.1"}, {})) == std::string());
  CHECK(model_difference(a, Run{}) == std::string());
  Run tensor_parallel = with_units({"", "layers.0", "layers.1"}, {4, 2});
  CHECK(model_difference(a, tensor_parallel) == "A has 48 elements of parameters, B 24");
  tensor_parallel.settings.tensor_parallel = 2;
  CHECK(model_difference(a, tensor_parallel) == std::string());
  Run expert_parallel = with_units({"", "layers.0", "layers.0.mlp.experts", "layers.1"}, {4, 2});
  expert_parallel.settings.expert_parallel = 8;
  CHECK(model_difference(a, expert_parallel) == std::string());
}

TEST_CASE("different models say in what") {
  const Run a = with_units({"", "layers.0", "layers.1"}, {8, 2});
  CHECK(model_difference(a, with_units({"", "layers.0"}, {})) == "A has 2 wrapped modules, B 1");
  CHECK(model_difference(a, with_units({"", "layers.0", "layers.1"}, {16, 2})) ==
        "A has 48 elements of parameters, B 96");
}

}  // namespace
}  // namespace foreshard
