#include "traces/infer/fitted_buffers.hpp"

#include <vector>

namespace foreshard::traces {
namespace {

struct Reading {
  const char* key;
  const char* value;  ///< JSON text
  Settings settings;
};

std::vector<Reading> other_readings(const Settings& first) {
  std::vector<Reading> readings;
  if (first.unshard_async) {
    Settings compute = first;
    compute.unshard_async = false;
    compute.gather_alloc = GatherAlloc::compute;
    readings.push_back({"gather_alloc", "\"compute\"", compute});
  }
  Settings offload = first;
  offload.offload = true;
  readings.push_back({"offload", "true", offload});
  offload.param_dtype.reset();  // copies of shards look like casts of them
  readings.push_back({"offload", "true", offload});
  return readings;
}

bool fits(const CaptureInput& input, const Settings& settings) {
  return capture_at(input, settings).has_value();
}

}  // namespace

Settings fit_buffers(const CaptureInput& input, Inference& inference) {
  if (fits(input, input.settings)) return input.settings;
  for (const Reading& reading : other_readings(input.settings)) {
    if (!fits(input, reading.settings)) continue;
    inference.set({reading.key, reading.value, "FSDP2's rules make the recorded requests with it, not without"});
    if (reading.settings.gather_alloc == GatherAlloc::compute) inference.set({"unshard_async", "false", "the same"});
    inference.settings = reading.settings;
    return reading.settings;
  }
  return input.settings;
}

}  // namespace foreshard::traces
