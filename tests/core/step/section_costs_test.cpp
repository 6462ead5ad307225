// Where a section's cost comes from when the capture does not show it (time model 1.1 step 6, 3.5).
#include "core/step/section_costs.hpp"

#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

SectionCost cost(Section section, std::uint32_t unit, Pass pass, std::int64_t work) {
  SectionCost c;
  c.section = section;
  c.unit = UnitId{unit};
  c.pass = pass;
  c.items.push_back({SectionRole::copy_in, {10}, {work}, KernelClass::gather_copy, 0, {}});
  return c;
}

Workload captured() {
  Workload w;
  w.sm_count = 132;
  w.settings = four_gpus();
  w.units = small_units(3);
  w.sections = {cost(Section::all_gather, 1, Pass::forward, 100), cost(Section::all_gather, 3, Pass::backward, 300)};
  return w;
}

std::int64_t work(SectionCosts& costs, std::uint32_t unit, Pass pass) {
  const SectionCost& c = costs.find(Section::all_gather, {UnitId{unit}, 0}, pass);
  CHECK(c.unit == UnitId{unit});
  CHECK(c.pass == pass);
  return c.items.empty() ? 0 : c.items[0].work.count;
}

TEST_CASE("own template, then an equal unit's, then the other pass, then nothing and counted") {
  const Workload w = captured();
  SectionCosts costs(w, w.settings);
  CHECK(work(costs, 1, Pass::forward) == 100);
  CHECK(work(costs, 3, Pass::backward) == 300);
  CHECK(work(costs, 2, Pass::forward) == 100);   // an equal unit's, same pass
  CHECK(work(costs, 1, Pass::backward) == 300);  // an equal unit's backward before its own forward
  CHECK(costs.misses() == 0);
  CHECK(work(costs, 0, Pass::forward) == 0);  // the root has other shapes
  CHECK(costs.misses() == 1);
  CHECK(work(costs, 0, Pass::forward) == 0);
  CHECK(costs.misses() == 1);  // counted once
}

TEST_CASE("shard-sized work follows the shard group") {
  const Workload w = captured();
  Settings half = w.settings;
  half.replicate = 2;
  SectionCosts costs(w, half);
  CHECK(work(costs, 1, Pass::forward) == 200);
}

TEST_CASE("accumulation's kernels are priced where the capture has none") {
  const Workload w = captured();
  SectionCosts costs(w, w.settings);
  const SectionCost& add = costs.find(Section::accumulate, {UnitId{1}, 0}, Pass::backward);
  REQUIRE(add.items.size() == 2);
  CHECK(add.items[0].role == SectionRole::gradient_add);
  CHECK(add.items[0].bytes == 10 * 64);
  CHECK(add.items[0].host_before.count == 12'000);
  const SectionCost& cast = costs.find(Section::reshard, {UnitId{1}, 0}, Pass::backward);
  REQUIRE(cast.items.size() == 2);
  CHECK(cast.items[1].bytes == 6 * 8);
  CHECK(costs.find(Section::reshard, {UnitId{1}, 0}, Pass::forward).items.empty());
  CHECK(costs.misses() == 0);
}

TEST_CASE("a workload without timing has no costs and misses none") {
  Workload w = captured();
  w.sections.clear();
  SectionCosts costs(w, w.settings);
  CHECK(work(costs, 1, Pass::forward) == 0);
  CHECK(costs.find(Section::accumulate, {UnitId{1}, 0}, Pass::backward).items.empty());
  CHECK(costs.misses() == 0);
}

}  // namespace
}  // namespace foreshard::test
