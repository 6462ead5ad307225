// What lengthened a collective: kernels beside it, and ranks that had not begun it. Private to core/explain_time.
//
// Both are measured, not modelled, by a collective's twins: same kind, transport, communicator and bytes, in any step
// of the run. What it takes beyond the shortest of them, where that is 1.3 times as long, and beyond the time for which
// anything ran beside it on another stream, it waited for ranks; several recorded ranks say so themselves, and for
// which. As core/timeline/isolated_durations.hpp has it for kernels, the isolated time is the median over the twins
// that ran beside kernels for at most 2 % of their time, and what the collective takes beyond that is contention, at
// most the time for which it was overlapped. Without such twins it is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/base/time_spans.hpp"
#include "core/run/run.hpp"

namespace foreshard::explain_time_detail {

/// When a collective's last rank began it, where that is another than the run's own.
struct LateStart {
  std::optional<std::uint32_t> rank;  ///< none: one that was not recorded
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
  [[nodiscard]] Nanoseconds overlapped(const DeviceOpRecord& op) const { return covered(busy_, op.start, op.end); }
  [[nodiscard]] static Shape shape_of(const DeviceOpRecord& op) {
    return {op.collective, op.transport, op.communicator, op.bytes};
  }
  [[nodiscard]] Nanoseconds beside_anything(const DeviceOpRecord& op) const;
  void find_late_starts();
  void find_shortest();
  void find_isolated();

  const Run& run_;
  std::vector<std::size_t> compute_;       // by start
  TimeSpans busy_;                         // of the compute stream, without collectives
  std::map<StreamId, TimeSpans> streams_;  // all ops
  std::map<Shape, Nanoseconds> shortest_;  // of two or more
  std::map<Shape, Nanoseconds> isolated_;
  std::map<Place, LateStart> late_;
};

}  // namespace foreshard::explain_time_detail
