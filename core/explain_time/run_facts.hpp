// What the explanations of a run's steps share, each worked out once. Private to core/explain_time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "core/base/time_spans.hpp"
#include "core/explain_time/collective_delays.hpp"
#include "core/explain_time/host_activity.hpp"
#include "core/explain_time/issue_order.hpp"
#include "core/explain_time/op_waits.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"
#include "core/run/steady_step.hpp"
#include "core/timeline/kernel_contention.hpp"
#include "core/timeline/places.hpp"
#include "core/timeline/start_order.hpp"

namespace foreshard::explain_time_detail {

/// Of the steps of one recording.
struct RecordingFacts {
  RecordingFacts(const Run& run, Recording recording) : places(run, recording), host(run, recording) {}
  Places places;
  HostActivity host;
};

class RunFacts {
 public:
  /// `run` must outlive it.
  explicit RunFacts(const Run& run, SlowedKernels slowed = SlowedKernels::looked_for);

  /// Ops of the compute stream that are no collectives and reach into [begin, end), by start.
  [[nodiscard]] std::vector<std::size_t> compute_ops(Nanoseconds begin, Nanoseconds end) const;
  /// Of the collectives on the compute stream that end in (from, to] the last to end; kNoDeviceOp: none.
  [[nodiscard]] std::size_t last_collective(Nanoseconds from, Nanoseconds to) const;

  const Run& run;
  OpWaits waits;
  CollectiveDelays delays;
  IssueOrder issues;
  std::optional<KernelContentions> contentions;  ///< where they are looked for
  std::vector<std::optional<DeviceSpan>> spans;  ///< of each step
  TimeSpans collectives;                         ///< when any runs
  std::map<Recording, RecordingFacts> of;        ///< of the recordings that have steps

 private:
  std::vector<std::size_t> compute_;  // by start
  StartOrder compute_order_;          // of them
  std::vector<std::size_t>
      in_order_;  // collectives of the compute stream, by end; of one end the first in the run last
};

}  // namespace foreshard::explain_time_detail
