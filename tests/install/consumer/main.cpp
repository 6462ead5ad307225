// Predicts a step of a model on eight GPUs with the installed headers alone (docs/install.md, "Guide to headers").
#include <core/models/generate.hpp>
#include <core/models/presets.hpp>
#include <cstdint>
#include <cstdio>
#include <sim/machine/profile.hpp>
#include <sim/predict/predict.hpp>

namespace {

foreshard::Result<foreshard::sim::Prediction> predicted() {
  const auto model = foreshard::preset("llama3-8b");
  FORESHARD_TRY(model);
  const auto machine = foreshard::sim::builtin_profile("h200");
  FORESHARD_TRY(machine);
  foreshard::Settings settings;
  settings.gpus = 8;
  settings.param_dtype = foreshard::DType::bfloat16;
  const auto workload = foreshard::generate(*model, settings, machine->host_calls, machine->gpu());
  FORESHARD_TRY(workload);
  return foreshard::sim::predict(*workload, *machine, {.settings = workload->settings, .memory_limit = {}});
}

}  // namespace

int main() {
  const auto plan = predicted();
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().text().c_str());
    return static_cast<int>(plan.error().kind);
  }
  std::printf("step_ms %.9f\npeak_reserved_bytes %llu\n", plan->step_ms,
              static_cast<unsigned long long>(plan->peaks.reserved));
  return 0;
}
