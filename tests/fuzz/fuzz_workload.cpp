// Any text gives a workload or an Error; what is accepted is written and read back as the same text, and can be
// simulated, with its kernels bound, as it is and rewritten for other settings.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/adapt/adapt.hpp"
#include "core/base/check.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/simulate.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace {

using namespace foreshard;

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = *sim::builtin_profile("h200");
  return kMachine;
}

/// As foreshard's own run: then steps bind what their launches compute.
void simulate(Workload workload, const Settings& settings) {
  workload.lowering = Lowering::foreshard;
  Run run;
  static_cast<void>(sim::simulate(workload, settings, machine(), {}, run));
}

constexpr std::uint32_t kMaxMicrobatches = 8;  // an input is to take milliseconds

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto workload = traces::from_json(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!workload) return 0;
  const std::string text = traces::to_json(*workload);
  const auto again = traces::from_json(text, "written");
  FORESHARD_CHECK(again.has_value(), again ? "" : again.error().text());
  FORESHARD_CHECK(traces::to_json(*again) == text, "a workload survives being written and read");
  if (!computes(*again)) return 0;
  simulate(*again, again->settings);
  if (again->settings.accumulate > kMaxMicrobatches) return 0;
  Settings more = again->settings;
  ++more.accumulate;
  Settings less = again->settings;
  less.checkpoint = Checkpoint::blocks;
  less.units_per_group = 2;
  less.accumulate = 1;
  for (const Settings& wanted : {more, less})
    if (const auto adapted = adapt(*again, wanted)) simulate(adapted->workload, wanted);
  return 0;
}
