// The plan that tests of sweep and its remedies change: four GPUs of an H200's node.
#pragma once

#include "sim/machine/profile.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::sim::test {

inline const MachineProfile& machine() {
  static const MachineProfile kMachine = builtin_profile("h200").value();
  return kMachine;
}

inline Settings base() {
  Settings settings = foreshard::test::four_gpus();
  settings.param_dtype = DType::bfloat16;
  settings.batch = 2;
  settings.seq = 128;
  return settings;
}

}  // namespace foreshard::sim::test
