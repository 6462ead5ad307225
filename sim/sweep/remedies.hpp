// What would give the memory back: each candidate is simulated from the run's own workload, nothing is guessed.
//
// Who: cli's explain. Deterministic for any number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/explain/explanation.hpp"
#include "core/settings/settings.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/largest_fit.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

struct RemedyRequest {
  Settings settings;                       ///< of the run that is explained
  std::optional<Bytes> memory_limit = {};  ///< none: the machine's
  unsigned threads = 1;
  std::function<void(std::size_t done, std::size_t all)> on_progress = {};
};

/// What the run would be with other settings.
struct Remedy {
  std::string setting;  ///< options of plan: "--release stash"
  std::string reason;   ///< what it changes, one sentence
  std::string pytorch;  ///< lines of Python or of the environment; several are separated by newlines
  Settings settings;
  MemoryPeaks peaks;
  std::int64_t saving = 0;             ///< of peak reserved, against `before`; bytes
  bool may_run_out_of_memory = false;  ///< with a host of another speed (Prediction::may_run_out_of_memory)
  bool retries_each_step = false;      ///< as Outcome has it
  bool has_time = false;
  double step_ms = 0;
  double uncertainty = 0;  ///< relative, of step_ms
  bool valid = true;
  std::vector<std::string> not_valid;  ///< why not
  std::vector<std::string> warnings;
  std::vector<CauseKind> cures;  ///< the causes that it is meant against; empty: it helps in another way
  /// Its step (a token's time, where its batch or sequence length is another) is longer by more than is told apart
  /// (Prediction::difference), or not known; where the run's own settings run out of memory, than theirs with enough
  /// of it.
  bool costs = false;
  /// Of CPU offload: what the ranks of one node keep in its memory; else 0. No profile says how much a node has.
  Bytes host_bytes_a_node = 0;
  /// What a list of remedies is sorted by: `saving`, of which one that costs time counts half.
  [[nodiscard]] std::int64_t worth() const { return costs ? saving / 2 : saving; }
  std::optional<LargestFit> largest = {};  ///< where it is the largest batch or sequence length that fits
};

struct Remedies {
  MemoryPeaks before;       ///< the run's own settings, simulated alike; until it ran out of memory, where it did
  Bytes most_reserved = 0;  ///< … what they come to reserve (most_reserved())
  bool out_of_memory = false;
  bool retries_each_step = false;  ///< the run's own settings (keeps_retrying())
  bool has_time = false;
  double step_ms = 0;
  std::vector<std::string> own_not_valid;  ///< what is against the run's own settings; empty: they are valid
  bool emulated = false;                   ///< as in Prediction; a remedy whose program is not alike there has no time
  /// Those that save reserved memory, by Remedy::worth(); out of memory: those that fit, first those that need
  /// neither more nodes nor the host's memory; of each those whose time is known and has no retries in each step, then
  /// those with retries or of another sequence length; of them valid ones, those that surely fit, those that leave the
  /// sequence length, and the least time a token, times the nodes; without those that change more than another one that
  /// fits.
  std::vector<Remedy> useful;
  std::size_t tried = 0;
  std::size_t useless = 0;              ///< ran, and saved nothing
  std::size_t larger = 0;               ///< fit, and change more than another one that fits
  std::vector<std::string> impossible;  ///< "--option: why it could not be simulated, or does not fit"
};

/// The remedy to name next to a cause: of those meant against it the one that saves most, or, of those within a
/// twentieth of that, the one that changes the fewest settings. Null without one.
[[nodiscard]] const Remedy* best_against(const Remedies& remedies, CauseKind cause);

/// Simulates the candidates. Fails where the run's own settings cannot be predicted.
[[nodiscard]] Result<Remedies> find_remedies(WorkloadSource& source, const MachineProfile& machine,
                                             const RemedyRequest& request);

}  // namespace foreshard::sim
