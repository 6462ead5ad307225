// What launches compute, in the file: whole, small, and checked before anything binds it.
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/traces/workload_file/workload_sample.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

ModelConfig small(std::string_view name) {
  ModelConfig model = *preset(name);
  model.layers = 2;
  model.dropout = 0;
  return model;
}

Settings small_settings(Kernels kernels, Checkpoint checkpoint, std::uint32_t accumulate) {
  Settings s;
  s.gpus = 2;
  s.batch = 1;
  s.seq = 128;
  s.kernels = kernels;
  s.checkpoint = checkpoint;
  s.accumulate = accumulate;
  return s;
}

/// Calls `use` with generated workloads of every plain family.
template <class Use>
void for_each_model(Use&& use) {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"})
    for (const Kernels kernels : {Kernels::eager, Kernels::fused})
      for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks})
        for (const bool mixed : {false, true}) {
          Settings settings = small_settings(kernels, checkpoint, mixed ? 2 : 1);
          if (mixed) settings.param_dtype = DType::bfloat16;
          if (mixed) settings.reduce_dtype = DType::float32;
          if (name == "mlp") settings.seq.reset();
          const auto w = generate(small(name), settings, {}, 132, true);
          INFO(name << ", kernels " << static_cast<int>(kernels) << ", mixed " << mixed);
          if (w) use(*w);
        }
}

TEST_CASE("what a generated program computes is written and read back", "[workload_file][kernels]") {
  int seen = 0;
  for_each_model([&](const Workload& w) {
    ++seen;
    REQUIRE(computes(w));
    const std::string text = to_json(w);
    const auto read = from_json(text, "w.json");
    INFO((read ? "" : read.error().text()));
    REQUIRE(read);
    CHECK(test::difference(w, *read) == "");
    CHECK(to_json(*read) == text);
  });
  CHECK(seen >= 16);
}

TEST_CASE("kernels make a workload's text at most a third longer", "[workload_file][kernels]") {
  const auto length = [](bool kernels) {
    Settings settings = small_settings(Kernels::eager, Checkpoint::none, 1);
    return to_json(*generate(*preset("llama-8b"), settings, {}, 132, kernels)).size();
  };
  CHECK(length(true) < length(false) * 4 / 3);
}

TEST_CASE("a plan of a workload is the plan of its file, by foreshard's lowering", "[workload_file][kernels]") {
  const auto machine = *sim::builtin_profile("h200");
  for_each_model([&](Workload w) {
    w.lowering = Lowering::foreshard;
    const auto read = from_json(to_json(w), "w.json");
    REQUIRE(read);
    const auto plan = sim::predict(w, machine, {w.settings, {}});
    const auto again = sim::predict(*read, machine, {w.settings, {}});
    REQUIRE(plan);
    REQUIRE(again);
    CHECK(!again->emulated);
    CHECK(plan->step_ms == again->step_ms);
    CHECK(plan->compute_ms == again->compute_ms);
    CHECK(plan->host_ms == again->host_ms);
    CHECK(plan->peaks.reserved == again->peaks.reserved);
    CHECK(plan->warnings == again->warnings);

    Workload silent = w;  // as a capture of PyTorch is
    for (Program& step : silent.steps) {
      step.kernels.clear();
      for (Op& op : step.ops) op.kernel_index = kNoKernel;
    }
    const auto emulated = sim::predict(silent, machine, {w.settings, {}});
    REQUIRE(emulated);
    CHECK(emulated->emulated);
    CHECK(emulated->warnings != plan->warnings);
  });
}

/// One step that embeds tokens, multiplies and keeps the gradient of its only parameter.
std::string sample() {
  return R"({"format": "foreshard workload", "schema": 1,
 "units": [{"name": "", "parameters": [["w", [8, 4]]]}],
 "computations": [
  ["random_tokens", [["int64", [3]]], {"integers": [-1, 0, 8]}],
  ["embedding", [["float32", [3, 4]], ["float32", [8, 4]], ["int64", [3]]]],
  ["included"],
  ["gemm", [["float32", [8, 4]], ["float32", [8, 3], [1, 8], 16], ["float32", [3, 4]], null], {"alpha": 0.5}],
  ["fill", [["float32", [4]]]],
  ["add", [["float32", [4]], ["float32", [4]], ["float32", [4], [0]]]]
 ],
 "losses": [1],
 "setup": [["alloc", 0, 16, {"computes": [4, 0]}], ["alloc", 1, 16]],
 "steps": [[
   ["alloc", 0, 24, "inputs"],
   ["kernel", "memory_bound", 1, {"computes": [0, 0]}],
   ["alloc", 1, 112, "activations"],
   ["copy", "device_to_device", 8, {"computes": [1, 1, "p0", 0]}],
   ["kernel", "memset", 1, {"computes": [2]}],
   ["alloc", 2, 128, "gradients", {"gradient_of": 0}],
   ["kernel", "gemm", 1, {"computes": [3, 2, 1, 1, null]}],
   ["kernel", "memory_bound", 1, {"computes": [5, 1, "g0", "s0"]}],
   ["free", 0],
   ["free", 1]]]})";
}

TEST_CASE("a workload with kernels by hand", "[workload_file][kernels]") {
  const auto read = from_json(sample(), "w.json");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  CHECK(computes(*read));
  const Program& step = read->steps[0];
  CHECK(step.loss == TensorId{1});
  REQUIRE(step.kernels.size() == 5);
  const ProgramKernel& gemm = step.kernels[step.ops[6].kernel_index];
  CHECK(gemm.kernel.op == KernelOp::gemm);
  CHECK(gemm.kernel.alpha == 0.5);
  CHECK(gemm.kernel.operands[1] == TensorView{16, DType::float32, false, {8, 3}, {1, 8}});
  CHECK(gemm.kernel.operands[2].strides == std::vector<std::uint64_t>{4, 1});
  CHECK(gemm.kernel.operands[3].absent);
  CHECK(step.kernels[4].where ==
        std::vector<Operand>{{Operand::Kind::tensor, 1}, {Operand::Kind::gradient, 0}, {Operand::Kind::setup, 0}});
  CHECK(read->setup.kernels.size() == 1);
  const auto again = from_json(to_json(*read), "again");
  REQUIRE(again);
  CHECK(test::difference(*read, *again) == "");
}

TEST_CASE("a gradient that no op names is simulated where steps are bound", "[workload_file][kernels]") {
  std::string text = sample();
  const std::string product = "[\"kernel\", \"gemm\", 1, {\"computes\": [3, 2, 1, 1, null]}],";
  text.replace(text.find(product), product.size(), "");
  const std::string named = "[\"alloc\", 2, 128, \"gradients\"";
  text.replace(text.find(named), named.size(), "[\"alloc\", null, 128, \"gradients\"");
  auto read = from_json(text, "w.json");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  read->lowering = Lowering::foreshard;
  const auto machine = *sim::builtin_profile("h200");
  CHECK(sim::predict(*read, machine, {read->settings, {}}));
}

struct KernelFault {
  const char* from;
  const char* to;
  const char* where;
  const char* what;
};

TEST_CASE("faults of kernels name their place", "[workload_file][kernels]") {
  const KernelFault fault = GENERATE(
      KernelFault{"[\"included\"]", "[\"include\"]", "$.computations[2][0]", "unknown word 'include'"},
      KernelFault{"[\"included\"]", "[\"adam\"]", "$.computations[2]",
                  "adam: FSDP2's sections and the optimizer compute"},
      KernelFault{"[\"included\"]", "[]", "$.computations[2]", "a kernel has 1 to 3 values"},
      KernelFault{"\"integers\": [-1, 0, 8]", "\"integers\": [-1, 0]", "$.computations[0]",
                  "random_tokens: 3 integers are wanted, not 2"},
      KernelFault{"\"integers\": [-1, 0, 8]", "\"integer\": []", "$.computations[0][2]", "unknown key 'integer'"},
      KernelFault{"[\"int64\", [3]]]]", "[\"float32\", [3]]]]", "$.computations[1]",
                  "embedding: operand 2 is float32, not int64"},
      KernelFault{"[\"float32\", [8, 3], [1, 8], 16]", "[\"float32\", [8, 3], [1], 16]", "$.computations[3]",
                  "gemm: operand 1 is no view that a block can hold"},
      KernelFault{"[\"float32\", [8, 3], [1, 8], 16]", "[\"float32\"]", "$.computations[3][1][1]",
                  "an operand has 2 to 4 values"},
      KernelFault{"[\"float32\", [8, 3], [1, 8], 16]", "null", "$.computations[3]", "gemm: operand 1 is absent"},
      KernelFault{"[\"float32\", [8, 3], [1, 8], 16]", "[\"float32\", [8, 5]]", "$.computations[3]",
                  "gemm: the shapes are not those of"},
      KernelFault{"[\"float32\", [3, 4]], null]", "[\"float32\", [3, 18446744073709551615]], null]",
                  "$.computations[3]", "gemm: operand 2 is no view that a block can hold"},
      KernelFault{"\"computes\": [2]", "\"computes\": [6]", "$.steps[0][4][3].computes[0]",
                  "there is no kernel 6: \"computations\" has 6"},
      KernelFault{"\"computes\": [2]", "\"computes\": []", "$.steps[0][4][3].computes", "the number of a kernel comes"},
      KernelFault{"\"computes\": [2]", "\"computes\": [2, 1]", "$.steps[0][4][3].computes",
                  "kernel 2 (included) has 0 operands, not 1"},
      KernelFault{", {\"computes\": [2]}", "", "$.steps[0][4]", "other launches of this step say what they compute"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 1, 1, 1]", "$.steps[0][6][3].computes[4]",
                  "operand 3 of kernel 3 (gemm) is absent: null is wanted"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, null, 1, 1, null]", "$.steps[0][6][3].computes[1]",
                  "operand 0 of kernel 3 (gemm) is there: null is none"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 1, \"x1\", null]", "$.steps[0][6][3].computes[3]",
                  "no place of an operand"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 1, \"p\", null]", "$.steps[0][6][3].computes[3]",
                  "no place of an operand"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 1, \"p4294967296\", null]", "$.steps[0][6][3].computes[3]",
                  "no place of an operand"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 1, -1, null]", "$.steps[0][6][3].computes[3]",
                  "-1 is out of range here"},
      KernelFault{"[3, 2, 1, 1, null]", "[3, 2, 9, 1, null]", "$.steps[0][6]",
                  "operand 1 lies in tensor 9, which is not allocated before"},
      KernelFault{"\"alloc\", 1, 112", "\"alloc\", 1, 111", "$.steps[0][6]",
                  "operand 1 reaches to byte 112 of tensor 1, which has 111"},
      KernelFault{"[1, 1, \"p0\", 0]", "[1, 1, \"p1\", 0]", "$.steps[0][3]",
                  "operand 1 lies in parameter 1: there are only 1"},
      KernelFault{"[1, 1, \"p0\", 0]", "[1, \"p0\", 1, 0]", "$.steps[0][3]", "operand 0 writes to parameter 0"},
      KernelFault{"[\"w\", [8, 4]]", "[\"w\", [8, 3]]", "$.steps[0][3]",
                  "operand 1 reaches to byte 128 of parameter 0, which has 96"},
      KernelFault{"[\"w\", [8, 4]]", "[\"w\", [8, 4], \"bfloat16\"]", "$.steps[0][3]",
                  "operand 1 is float32, and parameter 0 computes in bfloat16"},
      KernelFault{"{\"gradient_of\": 0}", "{\"stream\": 0}", "$.steps[0][7]",
                  "operand 1 lies in the gradient of parameter 0, which is not allocated before"},
      KernelFault{"[\"w\", [8, 4]]", "[\"w\", [8, 4], \"float32\", true, false, true]", "$.steps[0][3]",
                  "operand 1 is float32, and parameter 0 is gathered in float8_e4m3fn"},
      KernelFault{"\"g0\", \"s0\"", "\"g0\", \"f0\"", "$.steps[0][7]",
                  "operand 2 is a scale of parameter 0, which is not gathered in float8"},
      KernelFault{"\"g0\", \"s0\"", "\"g0\", \"s2\"", "$.steps[0][7]",
                  "operand 2 lies in tensor 2 of setup, which is not"},
      KernelFault{"[\"alloc\", 1, 16]]", "[\"free\", 0]]", "$.steps[0][7]",
                  "operand 2 lies in tensor 0 of setup, which is freed before"},
      KernelFault{"[\"free\", 0]", "[\"free\", 0, {\"from_setup\": true}]", "$.steps[0][7]",
                  "operand 2 lies in tensor 0 of setup, which a step frees"},
      KernelFault{"[4, 0]}", "[4, \"s0\"]}", "$.setup[0]", "operand 0 does not lie in a tensor of setup"},
      KernelFault{"[\"alloc\", 0, 16, {", "[\"alloc\", 0, 16, {\"size\": \"local_shard\", \"parameter\": 0, ",
                  "$.setup[0]", "operand 0 lies in tensor 0, whose size is that of a shard"},
      KernelFault{"\"alloc\", 1, 112, \"activations\"", "\"alloc\", 1, 112, \"activations\", {\"computes\": [2]}",
                  "$.steps[0][2]", "an alloc computes nothing"},
      KernelFault{"[\"free\", 1]", "[\"free\", 1, {\"computes\": [2]}]", "$.steps[0][9]", "a free computes nothing"},
      KernelFault{"\"losses\": [1]", "\"losses\": [7]", "$.losses[0]", "there is no tensor 7 in this step"},
      KernelFault{"\"losses\": [1]", "\"losses\": []", "$.losses", "0 losses for 1 steps"});
  std::string text = sample();
  const std::size_t at = text.find(fault.from);
  INFO(fault.from << " -> " << fault.to);
  REQUIRE(at != std::string::npos);
  const auto read = from_json(text.replace(at, std::string(fault.from).size(), fault.to), "w.json");
  REQUIRE(!read);
  INFO(read.error().text());
  CHECK(read.error().kind == ErrorKind::input);
  CHECK(read.error().where == "w.json: " + std::string(fault.where));
  CHECK(read.error().what.find(fault.what) != std::string::npos);
}

}  // namespace
}  // namespace foreshard::traces
