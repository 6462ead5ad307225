// What the rendezvous knows about each rank's life, and which rank to name as the cause when time runs out. Used by the
// rendezvous server. Pure: the time is a parameter.
//
// Three rules. Silence: a rank that came and sends no byte for Timeouts::silence is stopped or its host is gone.
// Progress: a rank that reports no new operation within its timeout hangs, unless it waits for others in a collective
// call or has finished; of several (each in the same NCCL call) the one that got the least far counts, the others wait
// for it: ranks report the same operations.
// Waiting: a collective call that someone waits in for Timeouts::bootstrap names the first rank that did not come.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu {

class LivenessMonitor {
 public:
  LivenessMonitor(std::uint32_t ranks, const Timeouts& timeouts, TimePoint now);

  void joined(std::uint32_t rank, TimePoint now);
  void heard(std::uint32_t rank, TimePoint now) { ranks_[rank].heard = now; }
  void heartbeat(std::uint32_t rank, std::uint64_t progress, Milliseconds timeout, std::string operation,
                 TimePoint now);
  /// Comes to a collective call, which ends with `met`.
  void waits(std::uint32_t rank, std::string what, TimePoint now);
  void met(TimePoint now);
  void finished(std::uint32_t rank) { ranks_[rank].finished = true; }
  /// The watcher itself did not run for so long: nobody is to name as the cause for that time.
  void paused(Milliseconds time);

  [[nodiscard]] bool has_joined(std::uint32_t rank) const { return ranks_[rank].joined; }
  [[nodiscard]] bool all_joined() const;
  [[nodiscard]] bool all_finished() const;
  /// The last operation that `rank` reported, or the collective call it waits in.
  [[nodiscard]] const std::string& operation(std::uint32_t rank) const { return ranks_[rank].operation; }

  /// The rank that time ran out for.
  [[nodiscard]] std::optional<RunFailure> overdue(TimePoint now) const;
  /// The first of the ranks that have not come, of which there must be one: it "did not come to the rendezvous `when`".
  [[nodiscard]] RunFailure absent(std::string_view when) const;

 private:
  struct Rank {
    bool joined = false, finished = false, waiting = false;
    TimePoint heard, progressed, waiting_since;
    std::uint64_t progress = 0;
    Milliseconds timeout{0};  ///< 0: Timeouts::progress
    std::string operation;
    std::string what;  ///< the collective call it waits in
  };

  [[nodiscard]] std::optional<RunFailure> missing(TimePoint now) const;
  [[nodiscard]] std::optional<RunFailure> silent(TimePoint now) const;
  [[nodiscard]] std::optional<RunFailure> stuck(TimePoint now) const;
  [[nodiscard]] std::optional<RunFailure> awaited(TimePoint now) const;
  [[nodiscard]] RunFailure attribute_failure(std::uint32_t rank, std::string cause, std::string hint = {}) const;

  std::vector<Rank> ranks_;
  Timeouts timeouts_;
  TimePoint start_;
};

}  // namespace foreshard::gpu
