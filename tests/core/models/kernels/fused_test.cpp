// `--kernels fused`: foreshard's own programs for the plain families.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/core/models/kernels/host_program_runner.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

Settings fused(Settings settings, Checkpoint checkpoint = Checkpoint::none) {
  settings.kernels = Kernels::fused;
  settings.checkpoint = checkpoint;
  return settings;
}

/// Largest difference of two runs' gradients, as a share of the largest gradient.
double largest_difference(const HostProgram& a, const HostProgram& b) {
  double most = 0;
  double largest = 0;
  for (std::uint32_t id = 0; id < a.parameters(); ++id)
    for (std::uint64_t i = 0; i < a.numel(id); ++i) {
      largest = std::max(largest, std::abs(a.gradient(id, i)));
      most = std::max(most, std::abs(a.gradient(id, i) - b.gradient(id, i)));
    }
  return most / largest;
}

TEST_CASE("fused programs compute what eager ones compute") {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"}) {
    const Workload eager = computing(small_model(name), small_settings());
    HostProgram expected(eager, 0.3);
    const double loss = expected.run(eager.steps[1]);
    for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks, Checkpoint::selective_op}) {
      INFO(name << ", " << static_cast<int>(checkpoint));
      const Workload w = computing(small_model(name), fused(small_settings(), checkpoint));
      HostProgram host(w, 0.3);
      CHECK(host.run(w.steps[1]) == Approx(loss).epsilon(1e-5));
      CHECK(largest_difference(host, expected) < 1e-5);
    }
  }
}

TEST_CASE("fused microbatches add up as eager ones do") {
  for (const bool sync : {false, true}) {
    Settings settings = small_settings();
    settings.accumulate = 2;
    settings.accumulate_with_sync = sync;  // a gradient of its own for each microbatch
    const ModelConfig model = small_model("llama-tiny");
    const Workload eager = computing(model, settings);
    const Workload own = computing(model, fused(settings));
    HostProgram a(eager, 0.3);
    HostProgram b(own, 0.3);
    CHECK(b.run(own.steps[1]) == Approx(a.run(eager.steps[1])).epsilon(1e-5));
    CHECK(largest_difference(b, a) < 1e-5);
  }
}

TEST_CASE("grouped heads in float32: PyTorch's math fallback agrees with attention in one kernel") {
  const ModelConfig model = small_model("llama-tiny", 1);
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks}) {
    Settings settings = small_settings();
    settings.checkpoint = checkpoint;
    const Workload eager = computing(model, settings);
    const Workload own = computing(model, fused(settings));
    CHECK(eager.estimates.size() == 1);
    HostProgram a(eager, 0.3);
    HostProgram b(own, 0.3);
    CHECK(b.run(own.steps[1]) == Approx(a.run(eager.steps[1])).epsilon(1e-5));
    CHECK(largest_difference(b, a) < 1e-5);
  }
}

TEST_CASE("fused bfloat16 with grouped heads is as near to float32 as eager bfloat16") {
  const ModelConfig model = small_model("llama-tiny", 1);
  for (const std::uint32_t blocks_a_unit : {1U, 2U}) {
    Settings settings = small_mixed();
    settings.units_per_group = blocks_a_unit;
    const Workload eager = computing(model, settings);
    const Workload own = computing(model, fused(settings));
    HostProgram a(eager, 0.3);
    HostProgram b(own, 0.3);
    CHECK(b.run(own.steps[1]) == Approx(a.run(eager.steps[1])).epsilon(0.02));
    CHECK(largest_difference(b, a) < 0.05);
  }
}

/// Bytes live at the peak of a step's own tensors, parameters' gradients apart.
Bytes peak(const Program& program) {
  std::map<std::uint32_t, Bytes> sizes;
  Bytes live = 0;
  Bytes most = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live += sizes[op.tensor.value] = op.size.bytes;
    if (op.kind == OpKind::free) live -= sizes[op.tensor.value];
    most = std::max(most, live);
  }
  return most;
}

std::ptrdiff_t kernels(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) { return op.kind == OpKind::kernel; });
}

TEST_CASE("fused Llamas launch less and hold less, and free what they make") {
  Settings settings = small_mixed();
  settings.gpus = 4;
  settings.batch = 1;
  settings.seq = 512;
  const ModelConfig model = *preset("llama-8b", {{}, 4, {}});
  const auto eager = generate(model, settings, {}, 132);
  const auto own = generate(model, fused(settings), {}, 132);
  REQUIRE(eager);
  REQUIRE(own);
  const Program& a = eager->steps[1];
  const Program& b = own->steps[1];
  CHECK(kernels(b) * 10 < kernels(a) * 6);
  CHECK(peak(b) * 10 < peak(a) * 4);  // one copy of the logits in place of four, and half of a block's tensors
  std::set<std::uint32_t> live;
  std::set<std::uint32_t> gradients;
  for (const Op& op : b.ops) {
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live.insert(op.tensor.value);
    if (op.kind == OpKind::alloc && op.gradient_of.valid()) gradients.insert(op.gradient_of.value);
    if (op.kind == OpKind::free) CHECK(live.erase(op.tensor.value) == 1);
    if (op.kind == OpKind::kernel) CHECK(op.kernel.bytes > 0);
  }
  CHECK(live.empty());
  CHECK(gradients.size() == 3 + 4 * 9);
}

TEST_CASE("hooks stand at the same places in fused and eager programs") {
  const ModelConfig model = small_model("llama-tiny");
  const auto hooks = [&](const Settings& settings) {
    std::vector<std::pair<Hook, std::uint32_t>> out;
    const Workload w = computing(model, settings);
    for (const Op& op : w.steps[1].ops)
      if (op.kind == OpKind::hook) out.emplace_back(op.hook, op.unit.value);
    return out;
  };
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks}) {
    Settings eager = small_settings();
    eager.checkpoint = checkpoint;
    CHECK(hooks(fused(small_settings(), checkpoint)) == hooks(eager));
  }
}

TEST_CASE("families without fused kernels are refused") {
  for (const std::string_view name : {"mpt-760m"}) {
    const auto w = generate(*preset(name), fused(small_mixed()), {}, 132);
    REQUIRE(!w);
    CHECK(w.error().kind == ErrorKind::usage);
  }
  ModelConfig compiled = small_model("llama-tiny");
  compiled.compiled = true;
  CHECK(!generate(compiled, fused(small_settings()), {}, 132));
}

}  // namespace
}  // namespace foreshard
