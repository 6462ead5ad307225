// What lengthened a collective: kernels beside it, and ranks that had not begun it. Private to core/explain_time.
//
// Contention is measured, not modelled, as core/compare/isolated_durations.hpp does for kernels: a collective's
// isolated time is the median over its twins (same kind, transport, communicator and bytes, any step of the run) that
// ran beside kernels of the compute stream for at most 2 % of their time. What it takes beyond that is contention, at
// most the time for which it was overlapped. Without such twins it is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/explain_time/spans.hpp"
#include "core/run/run.hpp"

namespace foreshard::explain_time_detail {

/// The rank that began a collective last, where that is another than the run's own.
struct LateStart {
  std::uint32_t rank = 0;
  Nanoseconds start;
};

class CollectiveDelays {
 public:
  explicit CollectiveDelays(const Run& run);

  struct Slowing {
    Nanoseconds time;                                   ///< beyond the isolated time
    bool unknown = false;                               ///< it was overlapped, and no twin tells
    std::size_t beside = static_cast<std::size_t>(-1);  ///< the compute op that ran beside it longest; may be none
  };
  [[nodiscard]] Slowing slowing(std::size_t collective) const;
  [[nodiscard]] std::optional<LateStart> late_start(const DeviceOpRecord& op) const;

 private:
  using Shape = std::tuple<CollectiveKind, Transport, CommunicatorId, Bytes>;
  using Place = std::tuple<StreamId, Nanoseconds, Nanoseconds>;
  [[nodiscard]] Nanoseconds length_of(const DeviceOpRecord& op) const;
  [[nodiscard]] Nanoseconds overlapped(const DeviceOpRecord& op) const {
    return length(within(busy_, op.start, op.end));
  }
  void find_late_starts();
  void find_isolated();

  const Run& run_;
  std::vector<std::size_t> compute_;  // by start
  Spans busy_;                        // of the compute stream, without collectives
  std::map<Shape, Nanoseconds> isolated_;
  std::map<Place, LateStart> late_;
};

}  // namespace foreshard::explain_time_detail
