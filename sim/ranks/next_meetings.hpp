// When a rank can come to its next meetings at the earliest, found without playing it.
//
// A collective cannot begin before the ops that it waits for have ended, which take at least what they take alone; it
// is not done before it has moved all bytes at the highest pace that the links could leave it. What the host, other
// kernels and other collectives hold up comes on top.
//
// Who: sim/ranks/job.cpp leaves a rank alone until then. A bound too high would change results; one too low costs a
// visit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"

namespace foreshard::sim {

/// What the collectives of a program wait for. Constant once built.
class MeetingNeeds {
 public:
  /// `table` must outlive it.
  explicit MeetingNeeds(const OpTable& table);

  [[nodiscard]] std::size_t communicators() const { return by_communicator_.size(); }
  /// Collectives of a communicator.
  [[nodiscard]] std::size_t count(std::uint32_t communicator) const { return by_communicator_[communicator].size(); }
  /// Ops of the compute stream, its first ones, that end before a collective begins.
  [[nodiscard]] std::uint32_t compute(std::uint32_t communicator, std::uint32_t place) const {
    return by_communicator_[communicator][place].compute;
  }
  /// Collectives of `other`, its first ones, that end before it begins.
  [[nodiscard]] std::uint32_t of(std::uint32_t communicator, std::uint32_t place, std::uint32_t other) const {
    return collectives_[by_communicator_[communicator][place].collectives + other];
  }
  /// What a collective takes at kFullRate.
  [[nodiscard]] std::int64_t ns(std::uint32_t communicator, std::uint32_t place) const {
    return by_communicator_[communicator][place].ns;
  }
  /// What kernels of the compute stream take at least, from one place to before another one, each times `factor`.
  [[nodiscard]] std::int64_t compute_ns(std::uint32_t from, std::uint32_t to, double factor) const;

 private:
  struct Needs {
    std::uint32_t compute = 0;
    std::uint32_t collectives = 0;  // the first of `collectives_`, one a communicator
    std::int64_t ns = 0;
  };
  std::vector<std::vector<Needs>> by_communicator_;  // by place
  std::vector<std::uint32_t> collectives_;
  std::vector<std::int64_t> compute_before_{0};  // by place on the compute stream: ns of all kernels before
};

/// Of one rank, as it stood at an instant, and as answers that it has not yet taken change that.
class NextMeetings {
 public:
  /// As `engine` stands; `kernels`: RankTraits', 0 where each kernel draws its own. `most_pace`: by communicator, of
  /// the collective that its group is at.
  void find(const Engine& engine, const MeetingNeeds& needs, double kernels,
            const ByCommunicator<std::int64_t>& most_pace);
  /// At `at` all ranks of its collective were there, which from then on has at most this pace.
  void begin(CommunicatorId communicator, Nanoseconds at, std::int64_t most_pace);
  /// Its collective ended.
  void end(CommunicatorId communicator, Nanoseconds at);
  /// Its collective has this pace from now on; false where it had it before.
  bool set_pace(CommunicatorId communicator, std::int64_t pace);

  /// No meeting is before it. kNever: it hears of others first; 0: it has none any more, and hears of nobody.
  [[nodiscard]] Nanoseconds earliest() const;
  /// None of its collectives moves, and it waits to hear of none: nobody changes when it comes to its next meeting.
  [[nodiscard]] bool is_free() const {
    return std::all_of(of_.begin(), of_.end(), [](const One& one) { return one.at == At::start; });
  }
  /// It has not heard of its last meeting of this communicator.
  [[nodiscard]] bool waits(CommunicatorId communicator) const { return of_[communicator.value].at == At::answer; }

 private:
  enum class At : std::uint8_t { start = 0, answer = 1, moving = 2 };
  struct One {
    At at = At::start;
    std::uint32_t behind = 0;           // communicators of which a collective ends before the next one begins
    std::int64_t start = kNever.count;  // of the next one to begin
    std::int64_t done = kNever.count;   // while it moves
    std::int64_t ns = 0;                // what it takes at kFullRate
    std::int64_t pace = kFullRate;      // as it was last told
  };
  ByCommunicator<One> of_;
};

}  // namespace foreshard::sim
