// When the waits of a process group are given up: what a rank sees of its own collectives and of its peers, over time.
//
// Who: torch_group.cpp, which looks every 50 ms. Nothing here knows CUDA or a clock: the caller brings both, so that
// the tests bring their own. Thread safety: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "gpu/torch_collectives/call_records.hpp"

namespace foreshard::gpu {

/// How far the calls of one kind are. Both count the calls that were not captured, modulo 2^32.
struct LaneProgress {
  std::uint32_t issued = 0;
  std::uint32_t done = 0;
  bool replaying = false;  ///< a replayed call is on its way
};

struct GroupProgress {
  std::array<LaneProgress, kCallKinds> lanes;
  std::optional<std::uint32_t> gone;  ///< a rank that has ended
  std::uint32_t refused = 0;          ///< calls that were refused because of it
};

struct ProgressLimits {
  std::chrono::milliseconds timeout{600'000};  ///< for a collective to end, from the end of the one before it
  std::chrono::milliseconds settle{2'000};     ///< after a rank has ended, for collectives that it had finished
  std::chrono::milliseconds retries{5'000};    ///< after a rank has ended, for the program to stop calling
};

class ProgressTimers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ProgressTimers(std::uint32_t rank, const ProgressLimits& limits) : rank_(rank), limits_(limits) {}

  /// With times that do not fall. Errors: rank_lost, where a rank has ended and collectives have waited for `settle`
  /// since, or calls are still made after `retries`; rank_hung, where the calls of a kind have waited for `timeout`
  /// without one of that kind ending. A kind that is idle, or goes on, does not reset the other's timer. Replayed calls
  /// have no timeout: one that waits looks like one that was replayed again.
  [[nodiscard]] Result<void> look(const GroupProgress& now, Time time);

 private:
  [[nodiscard]] Result<void> look_at_lane(std::uint32_t kind, const LaneProgress& lane, Time time);
  [[nodiscard]] Result<void> look_at_peers(const GroupProgress& now, Time time);

  struct Lane {
    std::uint32_t done = 0;
    std::optional<Time> moved;  ///< when a call ended last, or none waited
  };
  std::uint32_t rank_;
  ProgressLimits limits_;
  std::array<Lane, kCallKinds> lanes_;
  std::optional<Time> waiting_;  ///< since when a rank is gone and a collective waits
  std::optional<Time> gone_;     ///< since when a rank is gone
  std::uint32_t refused_ = 0;
};

}  // namespace foreshard::gpu
