// What another job on the same fabric costs this one.
//
// The other job has the nodes behind this one's, and trains on, step by step, while this one does its own: their groups
// meet on the links behind the adapters that both use (sim/ranks/job_network.hpp). How the two jobs' steps fall
// together is chance: the other job begins later by each eighth of its step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// As many ranks a node as this job has.
struct BesideRequest {
  const Workload* workload = nullptr;  ///< not adapted; not owned
  Settings settings;
};

struct BesideTimes {
  std::string name;  ///< of its workload
  std::uint32_t nodes = 0;
  std::uint32_t replicate = 1;
  double other_step_ms = 0;  ///< of the other job, alone on the machine
  /// On some link behind the adapters both jobs' groups can meet and ask for more than it carries; else it costs
  /// nothing, and there are no steps.
  bool meets = false;
  std::vector<double> steps_ms;  ///< of this job, anchored as its step is, by how much later the other one begins
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

}  // namespace foreshard::sim
