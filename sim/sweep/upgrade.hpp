// What another PyTorch version costs: one plan under two versions, and the rule that moves each byte and each wait.
//
// The rules between the two versions that a plan follows are put in one after another, in the order of
// version_rules(), and each time the step is simulated: what changes is that rule's part, and the parts add up to the
// whole. Where two rules give back the same bytes, the first has them. Both sides are planned the same way, never
// what was recorded against what is planned.
//
// Who: cli's plan. Deterministic: the same bytes for any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/settings/version_rules.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// After less before; bytes of the step whose peak decides whether it fits (largest_peaks).
struct VersionChange {
  std::int64_t requested = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::int64_t reserved = 0;
  double step_ms = 0;  ///< 0 where the workload has no times
  [[nodiscard]] bool moves() const;
};

struct MovedByRule {
  const VersionRule* rule = nullptr;
  VersionChange change;
  /// Bytes alone, and no more of them than ties between equal blocks are known to (kInventedTies).
  bool within_ties = false;
};

/// The plan of the recording itself, which follows when blocks came back in that process.
struct RecordedPlan {
  MemoryPeaks peaks;
  double step_ms = 0;
};

struct Upgrade {
  std::string from;
  std::string to;
  MemoryPeaks before;
  MemoryPeaks after;
  bool has_time = false;
  double before_ms = 0;
  double after_ms = 0;
  VersionChange change;
  std::vector<MovedByRule> rules;               ///< that move something here, in the order of version_rules()
  std::vector<const VersionRule*> unmoved;      ///< followed, and nothing moves here
  std::vector<const VersionRule*> not_planned;  ///< differ too; no plan shows them, a setting asks for them, or not
                                                ///< on this GPU
  std::optional<RecordedPlan> recorded;         ///< where it differs from `before`, which is planned as `after` is
};

/// `planned`: the prediction of `workload` as `request` asks for it, whose settings have the new version. Errors: those
/// of predict(); the step runs out of memory or deadlocks under the older version, or on the way to the newer.
[[nodiscard]] Result<Upgrade> find_upgrade(const Workload& workload, const MachineProfile& machine,
                                           const PredictRequest& request, const std::string& from,
                                           const Prediction& planned);

}  // namespace foreshard::sim
