#include "core/run/block_names.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

Run run_of_two_units() {
  Run run;
  run.units = {{"", {{"tok.weight", {8}, DType::float32}}},
               {"layers.0", {{"layers.0.wq.weight", {8}, DType::float32}}}};
  return run;
}

TEST_CASE("a parameter's name goes before its unit, the unit before the module") {
  Run run = run_of_two_units();
  const BlockNames names(run);
  BlockRecord block;
  CHECK(names.owner(block).empty());
  CHECK(names.title(block) == "other");
  block.module = run.labels.intern("layers.0.wo");
  CHECK(names.owner(block) == "layers.0.wo");
  block.unit = UnitId{1};
  CHECK(names.owner(block) == "layers.0");
  block.unit = kRootUnit;
  CHECK(names.owner(block) == "(root)");
  block.parameter = ParameterId{1};
  CHECK(names.owner(block) == "layers.0.wq.weight");
  CHECK(names.module_pattern(block) == "layers.*.wq");
}

TEST_CASE("the operator goes before the range; FSDP's buffers are named by FSDP's range") {
  Run run = run_of_two_units();
  const BlockNames names(run);
  BlockRecord block;
  block.category = MemoryCategory::activations;
  block.label = run.labels.intern("## forward ##");
  CHECK(names.op(block) == "## forward ##");
  block.op = run.labels.intern("aten::mm");
  block.module = run.labels.intern("");
  CHECK(names.title(block) == "(root): aten::mm");
  block.category = MemoryCategory::gather_buffers;
  block.unit = UnitId{1};
  block.label = run.labels.intern("FSDP::all_gather (layers.0)");
  CHECK(names.title(block) == "layers.0: FSDP::all_gather");
  block.label = {};  // a plan's
  CHECK(names.title(block) == "layers.0: FSDP::all_gather");
}

TEST_CASE("the frame is the user's") {
  Run run;
  const StackId outer = run.stacks.stack(run.stacks.frame("/home/me/train.py", 7, "main"), {});
  const StackId stack = run.stacks.stack(run.stacks.frame("/x/site-packages/torch/nn/a.py", 1, "f"), outer);
  const BlockNames names(run);
  CHECK(names.frame(stack) == "train.py:7 main");
  CHECK(names.whole_frame(stack) == "/home/me/train.py:7 main");
  CHECK(names.frame({}).empty());
}

TEST_CASE("numbers of repeated modules are starred") {
  CHECK(with_numbers_starred("layers.12.mlp.w1") == "layers.*.mlp.w1");
  CHECK(with_numbers_starred("layers.0, layers.1") == "layers.*, layers.*");
  CHECK(with_numbers_starred("h.3") == "h.*");
  CHECK(with_numbers_starred("FSDP::all_gather (layers.7)") == "FSDP::all_gather (layers.*)");
  CHECK(with_numbers_starred("conv2d").size() == 6);
  CHECK(with_numbers_starred("").empty());
}

}  // namespace
}  // namespace foreshard
