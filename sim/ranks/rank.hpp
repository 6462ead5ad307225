// One rank of a job: its host, which runs ahead of its GPU as the launch queue lets it, and its GPU.
//
// Who: sim/ranks/job.cpp runs each as far as it can go alone. What the host does is what SimDevice does with the same
// calls; the difference is that here time goes on event by event, so that collectives can wait for other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/ranks/host_program.hpp"
#include "sim/ranks/jitter.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

/// Where a host that does not go on stands.
enum class HostStop : std::uint8_t {
  program_end = 0,   ///< it has done all of its program
  launch_queue = 1,  ///< its next op finds the launch queue full
  event = 2,         ///< it synchronizes with an event
  all = 3,           ///< … with the device
  dead = 4,          ///< RankTraits::dead_from
};

class Rank {
 public:
  /// All references must outlive it. `host_scale`: of the job; the rank's own factor comes on top. Of `jitter` what is
  /// drawn for ops and host work. The launch queue is the machine's. `rates`: of the program's table; null: no short
  /// ways (EngineOptions::short_ways). `paced`: EngineOptions'.
  Rank(const MachineProfile& machine, const HostProgram& program, const RankTraits& traits, double host_scale,
       const Jitter& jitter, RateTable* rates, bool paced = false);

  /// Goes on until a collective has something to tell (engine().meetings()), or nothing is left to do.
  void run();
  /// Goes on with what comes before `until`, to the first meeting at most.
  void run_before(Nanoseconds until);
  /// The next thing, and of what follows only what lies before `until`.
  void step(Nanoseconds until = kNever);
  /// When step() would do something; kNever where it never will unless a collective goes on.
  [[nodiscard]] Nanoseconds next() const;
  /// Done with its program; of one that dies with what it lives to do.
  [[nodiscard]] bool finished() const { return action_ == end_ && engine_.unfinished() == 0; }
  [[nodiscard]] HostStop host_stop() const;
  /// Ops its host has issued: the program's first.
  [[nodiscard]] std::uint32_t issued() const { return issued_; }

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  /// By step: its end on the compute stream.
  [[nodiscard]] const std::vector<Nanoseconds>& step_ends() const { return step_ends_; }
  /// By step: Engine::idle_for_ranks() until then.
  [[nodiscard]] const std::vector<Nanoseconds>& idle_for_ranks() const { return idle_for_ranks_; }

 private:
  enum class Blocked : std::uint8_t { no = 0, queue = 1, event = 2, all = 3 };

  void act();
  void go_on();
  [[nodiscard]] bool still_blocked() const;
  [[nodiscard]] bool can_act() const { return blocked_ == Blocked::no && action_ < end_; }

  const MachineProfile& machine_;
  const HostProgram& program_;
  double host_scale_;
  Draws host_draws_;
  Engine engine_;
  Nanoseconds host_now_;
  std::size_t action_ = 0;
  std::size_t end_;  // actions it lives to do
  std::uint32_t issued_ = 0;
  Blocked blocked_ = Blocked::no;
  std::vector<Nanoseconds> step_ends_;
  std::vector<Nanoseconds> idle_for_ranks_;
};

}  // namespace foreshard::sim
