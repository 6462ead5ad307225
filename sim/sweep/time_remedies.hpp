// What would make the step faster: each candidate is simulated from the run's own workload, as those for memory are.
//
// Who: cli's explain --time. Deterministic for any number of threads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/remedies.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// The run with one change of settings, or with several of them together.
struct TimeRemedy {
  std::string setting;  ///< options of plan: "--all-gather copy-engine"; of a bound what it is of
  std::string reason;   ///< what it changes, one sentence
  std::string pytorch;  ///< lines of Python; several are separated by newlines
  Settings settings;
  std::size_t changes = 1;  ///< candidates that it joins
  double step_ms = 0;
  double saved_ms = 0;  ///< against `before`; negative: slower
  double saved_within =
      0;  ///< ms: nine of ten measured differences lie within `saved_ms` ± this (Prediction::difference)
  double exposed_communication_ms = 0;
  MemoryPeaks peaks;
  std::int64_t more_reserved = 0;      ///< bytes, of the peak of reserved memory, against `before`
  std::vector<std::string> not_valid;  ///< why not, beyond what the run's own settings have against them; empty: valid
  std::vector<std::string> warnings;
};

struct TimeRemedies {
  MemoryPeaks before;  ///< the run's own settings, simulated alike
  double step_ms = 0;
  double exposed_communication_ms = 0;
  bool host_bound = false;
  std::vector<std::string> own_not_valid;  ///< what is against the run's own settings, and so against all that follow
  double same =
      0;  ///< Prediction::difference of the run: smaller differences are none, nor are those below the remedy's own
  std::vector<TimeRemedy> faster;         ///< valid, most time saved first; several changes together come first
  std::vector<TimeRemedy> not_valid;      ///< outside of what the model was calibrated on; most time saved first
  std::vector<TimeRemedy> no_difference;  ///< valid; most time saved first
  std::vector<TimeRemedy> slower;         ///< valid, the least slow first
  std::vector<std::string> impossible;    ///< "--option: why it could not be simulated, or does not fit"
  /// Why embedding and head as units of their own were not simulated; empty: they were, or the root holds none.
  std::string not_split;
  std::size_t tried = 0;
  std::vector<std::string> not_timed = {};  ///< "--option: what of it the recording did not time": not valid
};

/// Simulates the candidates, and the fastest of each kind together, but for the reduce dtype. Fails where the run's own
/// settings cannot be predicted, or have no time.
[[nodiscard]] Result<TimeRemedies> find_time_remedies(WorkloadSource& source, const MachineProfile& machine,
                                                      const RemedyRequest& request);

}  // namespace foreshard::sim
