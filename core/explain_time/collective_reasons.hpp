// Why a collective that the compute stream waits for was not done earlier. Private to core/explain_time.
#pragma once

#include <cstddef>
#include <set>

#include "core/explain_time/run_facts.hpp"
#include "core/explain_time/time_explanation.hpp"

namespace foreshard::explain_time_detail {

struct Reason {
  IdleCause cause = IdleCause::copies;
  std::size_t behind = kNoDeviceOp;  ///< the op that it waited for
  LabelId host;                      ///< of `prefetch`: the range that issued it
};

/// Of the collectives of one step.
class CollectiveReasons {
 public:
  CollectiveReasons(const RunFacts& facts, const StepRecord& step);

  /// Of a collective.
  [[nodiscard]] Reason of(std::size_t collective) const;
  /// The collective whose result an op of another stream works on (a cast): the one before it there; kNoDeviceOp: none.
  [[nodiscard]] std::size_t collective_before(std::size_t op) const;

 private:
  void find_first_gathers(const IssueOrder& issues);
  void find_last_reductions(const IssueOrder& issues);
  [[nodiscard]] bool reduces_gradients(const DeviceOpRecord& op) const;
  [[nodiscard]] Reason behind_compute(const DeviceOpRecord& collective, std::size_t source) const;

  const Run& run_;
  const StepRecord& step_;
  const OpWaits& waits_;
  const HostActivity& host_;
  std::set<std::size_t> first_gathers_;
  std::set<std::size_t> last_reductions_;
};

}  // namespace foreshard::explain_time_detail
