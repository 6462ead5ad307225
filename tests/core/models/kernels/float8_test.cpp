// `--float8 tensorwise`: the fused Llama whose linear layers multiply in float8.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/kernel/kernel_check.hpp"
#include "tests/core/models/kernels/host_program_runner.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

ModelConfig small_float8_model() {
  ModelConfig model = small_model("llama-tiny", 1);
  model.dim = 32;
  model.ffn = 48;
  model.head_dim = 16;
  return model;
}

Settings with(Float8 float8, Checkpoint checkpoint = Checkpoint::none) {
  Settings settings = small_mixed();
  settings.seq = 8;
  settings.kernels = Kernels::fused;
  settings.float8 = float8;
  settings.checkpoint = checkpoint;
  return settings;
}

/// The root mean square of the difference of two runs' gradients, over that of the gradients.
double float8_difference(const HostProgram& a, const HostProgram& b) {
  double squares = 0;
  double apart = 0;
  for (std::uint32_t id = 0; id < a.parameters(); ++id)
    for (std::uint64_t i = 0; i < a.numel(id); ++i) {
      squares += std::pow(a.gradient(id, i), 2);
      apart += std::pow(a.gradient(id, i) - b.gradient(id, i), 2);
    }
  return std::sqrt(apart / squares);
}

std::map<std::string, std::size_t> launches(const Workload& w) {
  std::map<std::string, std::size_t> out;
  for (const Op& op : w.steps[1].ops)
    if (op.kind == OpKind::kernel) ++out[std::string(w.labels.text(op.label))];
  return out;
}

/// Bytes of activations of a step: what forward leaves for backward.
Bytes activations(const Program& program) {
  Bytes bytes = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations) bytes += op.size.bytes;
  return bytes;
}

TEST_CASE("float8 programs compute what bfloat16 ones do, but for the casts") {
  constexpr double kDeviation = 0.05;  // weights so large that attention is sharp make any rounding large
  const Workload narrow = computing(small_float8_model(), with(Float8::none));
  HostProgram expected(narrow, kDeviation);
  const double loss = expected.run(narrow.steps[1]);
  const Workload plain = computing(small_float8_model(), with(Float8::tensorwise));
  HostProgram first(plain, kDeviation);
  const double first_loss = first.run(plain.steps[1]);
  CHECK(first_loss == Approx(loss).epsilon(0.005));
  CHECK(float8_difference(expected, first) < 0.12);  // e5m2 has 3 significant bits
  CHECK(float8_difference(expected, first) > 0.02);  // and it is float8 that made them
  for (const Checkpoint checkpoint : {Checkpoint::blocks, Checkpoint::selective_op}) {
    INFO(static_cast<int>(checkpoint));
    const Workload w = computing(small_float8_model(), with(Float8::tensorwise, checkpoint));
    HostProgram host(w, kDeviation);
    CHECK(host.run(w.steps[1]) == Approx(first_loss).epsilon(1e-3));
    CHECK(float8_difference(first, host) < 0.05);  // a block's last sum is rounded before the next norm
  }
}

TEST_CASE("float8 programs have no fault and free what they make") {
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks, Checkpoint::selective_op}) {
    Settings settings = with(Float8::tensorwise, checkpoint);
    settings.accumulate = 2;
    const Workload w = computing(small_float8_model(), settings);
    std::set<std::uint32_t> live;
    for (const ProgramKernel& made : w.steps[1].kernels) CHECK(fault_of(made.kernel) == "");
    for (const Op& op : w.steps[1].ops) {
      if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live.insert(op.tensor.value);
      if (op.kind == OpKind::free) live.erase(op.tensor.value);
    }
    CHECK(live.empty());
  }
}

TEST_CASE("float8 casts an input once for the weights that share it") {
  const auto of = launches(computing(small_float8_model(), with(Float8::tensorwise)));
  constexpr std::size_t kBlocks = 2;
  constexpr std::size_t kWeights = 7;
  constexpr std::size_t kInputs = 4;  // of q, k, v; of o; of gate, up; of down
  CHECK(of.at("aten::_scaled_mm") == kBlocks * 3 * kWeights);
  CHECK(of.at("foreshard::amax") == kBlocks * (kInputs + 2 * kWeights));         // inputs, weights, gradients
  CHECK(of.at("foreshard::cast_float8") == kBlocks * (kInputs + 3 * kWeights));  // a weight again in backward
  CHECK(of.at("aten::mm") == 3);                                                 // the head stays in bfloat16
}

// Of the same weights: the host's runner casts them as all-gathers do.
TEST_CASE("float8 weights that are gathered as such are multiplied as those that are cast, bit for bit") {
  constexpr double kDeviation = 0.05;
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks, Checkpoint::selective_op}) {
    INFO(static_cast<int>(checkpoint));
    Settings settings = with(Float8::tensorwise, checkpoint);
    const Workload cast = computing(small_float8_model(), settings);
    settings.float8_all_gather = true;
    const Workload gathered = computing(small_float8_model(), settings);
    HostProgram expected(cast, kDeviation);
    HostProgram host(gathered, kDeviation);
    CHECK(host.run(gathered.steps[1]) == expected.run(cast.steps[1]));
    CHECK(float8_difference(expected, host) == 0);
    for (const ProgramKernel& made : gathered.steps[1].kernels) CHECK(fault_of(made.kernel) == "");
    if (checkpoint != Checkpoint::none) continue;
    constexpr std::size_t kWeights = 2 * 7;  // of two blocks
    const auto before = launches(cast);
    const auto of = launches(gathered);
    CHECK(of.at("foreshard::amax") == before.at("foreshard::amax") - kWeights);
    CHECK(of.at("foreshard::cast_float8") == before.at("foreshard::cast_float8") - 2 * kWeights);
    CHECK(of.at("foreshard::transpose_float8") == kWeights);
  }
}

TEST_CASE("float8 keeps inputs of linear layers in one byte") {
  Settings settings = with(Float8::none);
  settings.seq = 512;
  const ModelConfig model = *preset("llama-8b", {{}, 4, {}});
  const auto narrow = generate(model, settings, {}, 132);
  settings.float8 = Float8::tensorwise;
  const auto float8 = generate(model, settings, {}, 132);
  REQUIRE(narrow);
  REQUIRE(float8);
  const Bytes tokens = 2 * 512 * 4;  // of four blocks
  const Bytes halved = 2 * model.dim + model.ffn;
  const Bytes added = model.dim;  // attention's result, which its own backward keeps in bfloat16
  const Bytes scales = 4 * (4 + 7) * 4;
  CHECK(activations(float8->steps[1]) == activations(narrow->steps[1]) - halved * tokens + added * tokens + scales);
}

TEST_CASE("float8 says what it cannot multiply") {
  const auto refusal = [](const ModelConfig& model, const Settings& settings) {
    const auto w = generate(model, settings_for(model, settings), {}, 132);
    return w ? std::string() : w.error().what;
  };
  Settings odd = with(Float8::tensorwise);
  odd.seq = 7;
  CHECK(refusal(small_float8_model(), odd) ==
        "batch x seq of llama-tiny is 14, no multiple of 16, which float8 GEMMs ask for");
  Settings wide = with(Float8::tensorwise);
  wide.param_dtype.reset();
  CHECK(refusal(small_float8_model(), wide) ==
        "llama-tiny computes in float32, and what is cast to float8 is bfloat16");
  CHECK(refusal(small_model("mlp"), with(Float8::tensorwise)) == "mlp: float8 is not built for this family");
}

}  // namespace
}  // namespace foreshard
