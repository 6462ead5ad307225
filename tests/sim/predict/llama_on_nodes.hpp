// A small Llama on nodes of eight GPUs, ready to be planned.
#pragma once

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::test {

struct PlannedLlama {
  sim::MachineProfile machine;
  Workload workload;
  sim::PredictRequest request;  ///< at the workload's settings
  [[nodiscard]] Result<sim::Prediction> plan() const { return sim::predict(workload, machine, request); }
};

/// llama-1b, 1,024 tokens a sample, bfloat16.
inline PlannedLlama llama_on_nodes(const char* machine, std::uint32_t nodes, std::uint32_t replicate,
                                   std::uint32_t batch) {
  PlannedLlama out{sim::builtin_profile(machine).value(), {}, {}};
  Settings settings;
  settings.gpus = 8;
  settings.nodes = nodes;
  settings.replicate = replicate;
  settings.batch = batch;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  out.workload = generate(*preset("llama-1b"), settings, out.machine.host_calls, out.machine.gpu(), true).value();
  out.request.settings = out.workload.settings;
  return out;
}

}  // namespace foreshard::test
