// The numerator of MFU, against what a transformer's shapes say.
#include "sim/predict/model_flops.hpp"

#include "core/kernel/kernel_cost.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/recorded_flops.hpp"
#include "sim/predict/utilization.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr double kTokens = 2.0 * 512;

Workload llama(Checkpoint checkpoint, ModelConfig model = preset("llama-tiny").value(),
               std::uint32_t tensor_parallel = 1) {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = 2;
  settings.tensor_parallel = tensor_parallel;
  settings.batch = 2;
  settings.seq = 512;
  settings.param_dtype = DType::bfloat16;
  settings.checkpoint = checkpoint;
  return generate(model, settings, machine.host_calls, machine.gpu()).value();
}

/// llama-tiny: dim 1024, 16 heads of 64, 4 of keys and values, ffn 2816, 8 layers, vocabulary 32000.
double products() {
  const double layer = 1024.0 * 1024 * 2 + 1024.0 * 256 * 2 + 1024.0 * 2816 * 3;
  return 8 * layer + 1024.0 * 32000;
}

TEST_CASE("MFU counts products three times and attention, whatever is recomputed") {
  const double attention = 8 * 2 * 16 * (4.0 * 512 * 512 * 64) / 2;  // layers, batch, heads; a causal mask's half
  const double expected = 3 * (2 * products() * kTokens + attention);
  CHECK(model_flops(llama(Checkpoint::none)) == Approx(expected).epsilon(0.001));
  CHECK(model_flops(llama(Checkpoint::blocks)) == Approx(expected).epsilon(0.001));
}

TEST_CASE("frozen parameters take less") {
  ModelConfig model = preset("llama-tiny").value();
  model.lora.rank = 8;
  model.lora.targets = {"wq", "wv"};
  const double frozen = model_flops(llama(Checkpoint::none, model));
  const double all = model_flops(llama(Checkpoint::none));
  CHECK(frozen > 0.6 * all);
  CHECK(frozen < 0.75 * all);
  CHECK(model_flops(llama(Checkpoint::blocks, model)) == 0);
}

TEST_CASE("MFU is over the data sheet's rate of the products' dtype") {
  const MachineProfile machine = builtin_profile("h200").value();
  const Workload workload = llama(Checkpoint::none);
  const double seconds = model_flops(workload) / machine.peaks.matrix_bfloat16;
  const auto of = [&](const Workload& any, double ms) {
    return model_flops_utilization(any, any.settings, machine.peaks, ms);
  };
  CHECK(of(workload, seconds * 1e3 * 2).value == Approx(0.5));
  CHECK_FALSE(of(workload, seconds * 1e3 * 2).rests_on.empty());
  CHECK(of(workload, 0).value == 0);
  CHECK(of(Workload{}, 1).value == 0);
  CHECK_FALSE(of(Workload{}, 1).unknown.empty());
}

/// As if it had been recorded: kernels have a class and a time (here their FLOPs), and no shape.
Workload recorded(Workload workload) {
  for (Program& program : workload.steps)
    for (Op& op : program.ops)
      if (op.kind == OpKind::kernel) {
        op.kernel.work.count = 1'000 + static_cast<std::uint64_t>(flops(op.kernel.math));
        op.kernel.math = {};
      }
  return workload;
}

const std::string kPlanTheModel = ": plan the model itself (a preset, or its Hugging Face folder)";

std::string why_unknown(const Workload& workload) {
  const RecordedFlops found = recorded_flops(workload, workload.settings);
  CHECK(found.flops == 0);
  CHECK(found.rests_on.empty());
  return found.unknown;
}

TEST_CASE("a recording's FLOPs are those of the same model, from its parameters and tokens") {
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks}) {
    const Workload model = llama(checkpoint);
    const Workload workload = recorded(model);
    const RecordedFlops found = recorded_flops(workload, workload.settings);
    INFO(found.unknown);
    CHECK(found.flops == Approx(model_flops(model)).epsilon(1e-6));
    CHECK(found.rests_on.starts_with("57 weight matrices"));
    CHECK(found.dtype == DType::bfloat16);
  }
  const Workload half = llama(Checkpoint::none, preset("llama-tiny").value(), 2);
  CHECK(recorded_flops(recorded(half), half.settings).flops == Approx(model_flops(half)).epsilon(1e-6));
  CHECK(model_flops(half) < 0.7 * model_flops(llama(Checkpoint::none)));
}

TEST_CASE("a recording's FLOPs are not guessed: why they are not known is said") {
  const Workload good = recorded(llama(Checkpoint::none));
  REQUIRE(recorded_flops(good, good.settings).flops > 0);
  Workload odd = good;
  odd.settings.seq.reset();
  CHECK(why_unknown(odd) == "no sequence length is known: import it with an about file that gives seq");
  odd = good;
  odd.settings.param_dtype = DType::float32;
  CHECK(why_unknown(odd) == "whether products in float32 ran as TF32 is not recorded" + kPlanTheModel);
  odd = good;
  odd.units[1].parameters[0].requires_grad = false;
  CHECK(why_unknown(odd) == "some parameters are frozen, so backward computes less" + kPlanTheModel);
  odd = good;
  odd.units[1].parameters.push_back({"layers.0.experts.w1", {8, 64, 64}, DType::float32});
  CHECK(why_unknown(odd) ==
        "layers.0.experts.w1 is no matrix, how much of it each token passes is not known" + kPlanTheModel);
  odd = good;
  odd.units[1].parameters.push_back({"layers.0.extra.weight", {64, 64}, DType::float32});
  CHECK(why_unknown(odd) == "its forward has 57 matrix products where the parameters' names give 58" + kPlanTheModel);
  odd = good;
  for (Parameter& parameter : odd.units[1].parameters)
    if (const auto at = parameter.name.find("wq"); at != std::string::npos) parameter.name.replace(at, 2, "wx");
  CHECK(why_unknown(odd) == "its forward has 8 attentions where the parameters' names give 7" + kPlanTheModel);
  odd = good;
  odd.recorded.resize(2);
  CHECK(why_unknown(odd) == "the recorded steps differ: record steps of one batch size and sequence length");
}

TEST_CASE("MFU of a recording is the mean of its ranks' own tokens") {
  const Workload workload = recorded(llama(Checkpoint::none));
  const MachineProfile machine = builtin_profile("h200").value();
  const auto of = [&](const std::vector<StepShape>& ranks, const Settings& settings) {
    return model_flops_utilization(workload, settings, machine.peaks, 1, ranks).value;
  };
  Settings half = workload.settings;
  half.seq = *half.seq / 2;
  const StepShape whole_shape{*half.batch, *workload.settings.seq}, half_shape{*half.batch, *half.seq};
  CHECK(of({whole_shape, half_shape}, workload.settings) ==
        Approx((of({}, workload.settings) + of({}, half)) / 2).epsilon(1e-9));
  CHECK(of({whole_shape, half_shape}, workload.settings) < 0.76 * of({}, workload.settings));
}

TEST_CASE("a tied head counts, and small products beside the weights' do not") {
  Workload tied = recorded(llama(Checkpoint::none));
  const double all = recorded_flops(tied, tied.settings).flops;
  for (Unit& unit : tied.units)
    std::erase_if(unit.parameters, [](const Parameter& p) { return p.name.find("head") != std::string::npos; });
  const RecordedFlops found = recorded_flops(tied, tied.settings);
  INFO(found.unknown);
  CHECK(found.flops == Approx(all));
  CHECK(found.rests_on.find("tied") != std::string::npos);
  Op small;
  small.kind = OpKind::kernel;
  small.kernel.kernel_class = KernelClass::gemm_streaming;
  small.kernel.work.count = 10'000;
  Workload more = recorded(llama(Checkpoint::none));
  more.steps.back().ops.insert(more.steps.back().ops.begin(), small);
  CHECK(recorded_flops(more, more.settings).flops == all);
}

}  // namespace
}  // namespace foreshard::sim
