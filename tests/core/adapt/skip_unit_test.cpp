// A program without one of its units, on programs small enough to read.
#include "core/adapt/skip_unit.hpp"

#include <algorithm>

#include "core/adapt/adapt.hpp"
#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {
namespace {

Workload of_blocks(std::uint32_t blocks) {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return small_workload(s, blocks);
}

TEST_CASE("a program without its last block is the program of a model without it, from that step on") {
  Workload w = of_blocks(3);
  const Workload whole = w, expected = of_blocks(2);
  REQUIRE(skip_unit(w, UnitId{3}, 2, 4));
  REQUIRE(w.steps.size() == 4);
  CHECK(w.cycle == 1);
  CHECK(text_of(w.steps[0]) == text_of(whole.steps[0]));
  CHECK(text_of(w.steps[1]) == text_of(whole.steps[1]));
  CHECK(text_of(w.steps[2]) == text_of(expected.steps[1]));
  CHECK(text_of(w.steps[3]) == text_of(expected.steps[1]));
}

TEST_CASE("steps that repeat in a cycle still do, without the unit") {
  Workload w = of_blocks(3);
  w.steps.push_back(w.steps[1]);
  w.steps[2].ops.front().host_before = Nanoseconds{77};  // told from the step before by that
  w.cycle = 2;
  REQUIRE(skip_unit(w, UnitId{3}, 1, 5));
  REQUIRE(w.steps.size() == 5);
  for (std::size_t step = 1; step < 5; ++step)
    CHECK(w.steps[step].ops.front().host_before.count == (step % 2 == 0 ? 77 : 0));
}

TEST_CASE("a unit whose forward is made again in its backward goes whole") {
  Workload w = of_blocks(3);
  REQUIRE(checkpoint_blocks(w));
  REQUIRE(skip_unit(w, UnitId{2}, 1, 2));
  CHECK(flaw_of(w.steps[1]).empty());
  for (const Op& op : w.steps[1].ops) CHECK(op.unit != UnitId{2});
  Workload two = of_blocks(2);
  REQUIRE(checkpoint_blocks(two));
  CHECK(w.steps[1].ops.size() == two.steps[1].ops.size());
}

TEST_CASE("blocks that a skipped unit makes and that outlive the step are kept, and no free is left of one that goes") {
  Workload w = of_blocks(3);
  REQUIRE(skip_unit(w, UnitId{1}, 0, 2));
  for (const Program& step : w.steps) CHECK(flaw_of(step).empty());
  const std::vector<std::string> lines = text_of(w.steps[0]);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.find(std::to_string(kWorkspace)) != std::string::npos;
        }) == 1);
}

TEST_CASE("the root, a unit that does not run and one that another runs in part inside cannot be skipped") {
  Workload w = of_blocks(3);
  CHECK(skip_unit(w, kRootUnit, 1, 2).error().kind == ErrorKind::usage);
  Workload twice = w;
  REQUIRE(skip_unit(twice, UnitId{2}, 1, 2));
  CHECK(skip_unit(twice, UnitId{2}, 1, 2).error().what == "step 1 does not run " + w.units[2].name);
  // Block 3's pre-backward before block 2's forward is over.
  Workload overlapping = w;
  std::vector<Op>& ops = overlapping.steps[1].ops;
  const auto at = [&](Hook hook, UnitId unit) {
    return std::find_if(ops.begin(), ops.end(),
                        [&](const Op& op) { return op.kind == OpKind::hook && op.hook == hook && op.unit == unit; });
  };
  std::iter_swap(at(Hook::post_forward, UnitId{2}), at(Hook::pre_forward, UnitId{3}));
  CHECK(skip_unit(overlapping, UnitId{2}, 1, 2).error().what ==
        w.units[3].name + " runs in part while " + w.units[2].name + " does");
}

}  // namespace
}  // namespace foreshard::test
