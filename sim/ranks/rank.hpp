// One rank of a job: its host, which runs ahead of its GPU as the launch queue lets it, and its GPU.
//
// Who: sim/ranks/job.cpp runs each as far as it can go alone. What the host does is what SimDevice does with the same
// calls; the difference is that here time goes on event by event, so that collectives can wait for other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/ranks/host_program.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

class Rank {
 public:
  /// All references must outlive it. `host_scale`: of the job; the rank's own factor comes on top. The launch queue is
  /// the machine's.
  Rank(const MachineProfile& machine, const HostProgram& program, const RankTraits& traits, double host_scale);

  /// Goes on until a collective has something to tell (engine().meetings()), or nothing is left to do.
  void run();
  /// The next thing only.
  void step();
  /// When step() would do something; kNever where it never will unless a collective goes on.
  [[nodiscard]] Nanoseconds next() const;
  [[nodiscard]] bool finished() const { return action_ == program_.actions.size() && engine_.unfinished() == 0; }

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  /// By step: its end on the compute stream.
  [[nodiscard]] const std::vector<Nanoseconds>& step_ends() const { return step_ends_; }

 private:
  enum class Blocked : std::uint8_t { no = 0, queue = 1, event = 2, all = 3 };

  void act();
  void go_on();
  [[nodiscard]] bool still_blocked() const;
  [[nodiscard]] bool can_act() const { return blocked_ == Blocked::no && action_ < program_.actions.size(); }

  const MachineProfile& machine_;
  const HostProgram& program_;
  double host_scale_;
  Engine engine_;
  Nanoseconds host_now_;
  std::size_t action_ = 0;
  std::uint32_t issued_ = 0;
  Blocked blocked_ = Blocked::no;
  std::vector<Nanoseconds> step_ends_;
};

}  // namespace foreshard::sim
