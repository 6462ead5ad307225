// What each device op waited for last: its issue, the op before it on its stream, the collective before it on its
// communicator, or an op of another stream. Private to core/explain_time.
//
// Plans and executed runs have all events, and an op waits for what they say; one that begins later than that found no
// SM free, and the op of another stream that ended last before it began is taken to have held it up. A recording of
// PyTorch has no events, or those that the profiler saw: there an op that began later than its issue, its stream, its
// communicator and such events explain is taken to have waited for that op; a collective that even that one does not
// explain waited for its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::explain_time_detail {

/// From the end of one op of a stream to the start of the next, issued in time: 1.3 to 3.2 us in the reference
/// recordings, up to 5 next to a memory copy (docs/model.md, "Streams").
inline constexpr Nanoseconds kKernelGap{5'000};

/// What an op waited for last, and until when; `at` is not after the op's start.
struct Wait {
  enum class For : std::uint8_t { issue = 0, stream = 1, communicator = 2, event = 3 };
  For what = For::issue;
  Nanoseconds at;
  std::size_t source = static_cast<std::size_t>(-1);  ///< the op that ended then; of `issue` none
  /// In a run with all events: the op that ended last before it began, where it began later than all that it waited
  /// for explains; else none.
  std::size_t queued_behind = static_cast<std::size_t>(-1);
  bool for_peers = false;  ///< a collective of a recording that nothing on this GPU held up any more
};

class OpWaits {
 public:
  explicit OpWaits(const Run& run);

  [[nodiscard]] Wait of(std::size_t op) const;

 private:
  [[nodiscard]] std::size_t last_end(const DeviceOpRecord& op, Nanoseconds after) const;

  const Run& run_;
  bool all_events_;
  std::vector<std::size_t> before_on_stream_;        // by op
  std::vector<std::size_t> before_on_communicator_;  // by op
  std::vector<std::vector<std::size_t>> events_;     // by op; empty vector of vectors: the run has none
  std::vector<std::size_t> by_end_;                  // all ops
};

}  // namespace foreshard::explain_time_detail
