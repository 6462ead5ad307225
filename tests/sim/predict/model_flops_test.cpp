// The numerator of MFU, against what a transformer's shapes say.
#include "sim/predict/model_flops.hpp"

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr double kTokens = 2.0 * 512;

Workload llama(Checkpoint checkpoint, ModelConfig model = preset("llama-tiny").value()) {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
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
  CHECK(model_flops_utilization(workload, machine.peaks, seconds * 1e3 * 2) == Approx(0.5));
  CHECK(model_flops_utilization(workload, machine.peaks, 0) == 0);
  CHECK(model_flops_utilization(Workload{}, machine.peaks, 1) == 0);
}

}  // namespace
}  // namespace foreshard::sim
