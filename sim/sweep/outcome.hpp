// What becomes of a run at other settings, without the run: remedies are found from these. Internal to sim/sweep.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/largest_fit.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// One candidate's answer: a prediction's numbers, or why there are none.
struct Outcome {
  MemoryPeaks peaks;
  bool has_time = false;
  double step_ms = 0;
  double exposed_communication_ms = 0;
  bool host_bound = false;
  double uncertainty = 0;  ///< the larger side of the interval, relative to step_ms
  double difference = 0;   ///< Prediction::difference
  bool valid = true;
  std::vector<std::string> not_valid;
  bool emulated = false;
  bool out_of_memory = false;
  bool retries_each_step = false;      ///< keeps_retrying()
  bool may_run_out_of_memory = false;  ///< Prediction::may_run_out_of_memory
  std::vector<std::string> warnings;
  std::string reason;  ///< of a refusal or a deadlock
  std::vector<std::string> time_unknown;
  Bytes offloaded = 0;  ///< offloaded_bytes() of a rank; 0 without CPU offload
  Bytes most_reserved = 0;
};

/// What all candidates have in common.
struct Simulated {
  WorkloadSource& source;
  const MachineProfile& machine;
  std::optional<Bytes> memory_limit;
  std::optional<HostScale> host_scale;
};

/// The calibration that all points share, where they have one workload.
[[nodiscard]] Result<std::optional<HostScale>> common_host_scale(WorkloadSource& source, const MachineProfile& machine,
                                                                 const Settings& settings);

[[nodiscard]] Result<Outcome> simulate_settings(const Simulated& how, const Settings& settings);

/// As find_largest_fit(). `request.memory_limit` is `how`'s.
[[nodiscard]] LargestFit largest_fit(const Simulated& how, const LargestFitRequest& request);

/// In the candidates' order. A candidate that fails has the reason alone.
[[nodiscard]] std::vector<Outcome> simulate_all(const Simulated& how, const std::vector<Candidate>& list,
                                                unsigned threads,
                                                const std::function<void(std::size_t, std::size_t)>& on_progress);

}  // namespace foreshard::sim
