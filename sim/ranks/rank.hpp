// One rank of a job: its host, which runs ahead of its GPU as the launch queue lets it, and its GPU.
//
// Who: sim/ranks/job.cpp runs each as far as it can go alone. What the host does is what SimDevice does with the same
// calls; the difference is that here time goes on event by event, so that collectives can wait for other ranks.
//
// The host goes ahead of the GPU's present instant as far as it can: nothing but what blocks it depends on that. What
// blocked it is over when the GPU came to it, or when the host did if that is later.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/ranks/host_schedule.hpp"
#include "sim/ranks/jitter.hpp"
#include "sim/ranks/rank_traits.hpp"
#include "sim/ranks/step_period.hpp"

namespace foreshard::sim {

/// Where a host that does not go on stands.
enum class HostStop : std::uint8_t {
  program_end = 0,   ///< it has done all of its program
  launch_queue = 1,  ///< its next op finds the launch queue full
  event = 2,         ///< it synchronizes with an event
  all = 3,           ///< … with the device
  dead = 4,          ///< RankTraits::dead_from
};

/// Whether Delays are found, and of which work.
enum class TellDelays : std::uint8_t { no, of_factors, of_all_work };

class Rank {
 public:
  /// All references must outlive it; `schedule` is of `program`. `host_scale`: of the job; the rank's own factor comes
  /// on top. Of `jitter` what is drawn for ops and host work. The launch queue is the machine's. `rates`: of the
  /// program's table; null: no short ways (EngineOptions::short_ways). `paced`: EngineOptions'. `period`: of `program`;
  /// without one (null), and of a rank that draws for ops or host work, or that dies, there are no cuts. `delays`: its
  /// engine tells Delays (EngineOptions::tells_delays); all work counts in them, or what factors make of it.
  Rank(const MachineProfile& machine, const HostProgram& program, const HostSchedule& schedule,
       const RankTraits& traits, double host_scale, const Jitter& jitter, RateTable* rates, bool paced = false,
       const StepPeriod* period = nullptr, TellDelays delays = TellDelays::no);

  /// Goes on until a collective has something to tell (engine().meetings()), or nothing is left to do.
  void run() { run_before(kNever); }
  /// Goes on with what comes before `until`, to the first meeting at most.
  void run_before(Nanoseconds until);
  /// The next thing, and of what follows only what lies before `until`.
  void step(Nanoseconds until = kNever);
  /// Where rewind() goes back to: now, with no meeting to take. Of ranks without a period.
  void mark();
  /// To the last mark(), any number of times: as if nothing had been since.
  void rewind();
  /// When step() would do something; kNever where it never will unless a collective goes on.
  [[nodiscard]] Nanoseconds next() const;
  /// Done with its program; of one that dies with what it lives to do.
  [[nodiscard]] bool finished() const { return act_ == end_ && engine_.unfinished() == 0; }
  [[nodiscard]] HostStop host_stop() const;
  /// Ops its host has issued: the program's first.
  [[nodiscard]] std::uint32_t issued() const { return issued_; }

  /// Begins to bring what run() needs into the cache: first the rank itself, and once that is there the rest.
  void prefetch() const;
  void prefetch_times() const { engine_.prefetch_times(); }

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  /// By step: its end on the compute stream.
  [[nodiscard]] const std::vector<Nanoseconds>& step_ends() const { return step_ends_; }
  /// How it stood at the end of one of its program's cuts (StepPeriod), and what changed since a step before.
  struct Cut {
    std::optional<Engine::State> state;  ///< none: it cannot be said
    Nanoseconds at;
    Nanoseconds idle_for_ranks;
    bool repeats = false;  ///< it stood as a step before
    Nanoseconds took;      ///< since then
    Nanoseconds idled;     ///< of that
  };
  /// Cuts that it has come to; none where it has no period.
  [[nodiscard]] std::size_t cuts() const { return next_cut_; }
  /// Of the last StepPeriod::kCuts.
  [[nodiscard]] const Cut& cut(std::size_t index) const { return cuts_[index % StepPeriod::kCuts]; }
  /// By step: Engine::idle_for_ranks() until then.
  [[nodiscard]] const std::vector<Nanoseconds>& idle_for_ranks() const { return idle_for_ranks_; }

 private:
  using Act = HostSchedule::Act;

  void go_ahead();
  void act();
  void go_on();
  void do_act(const Act& act);
  void advance(Nanoseconds until);
  void take_cut();
  [[nodiscard]] std::optional<Engine::State> state() const;
  [[nodiscard]] std::int64_t own_work();
  [[nodiscard]] bool is_held_up(const Act& act) const;
  [[nodiscard]] bool can_act() const { return !blocked_ && act_ < end_; }

  /// What of it is not its engine, or only added to.
  struct Course {
    bool blocked = false;  // in its present act, whose work is done
    std::uint32_t issued = 0;
    Nanoseconds host_now;
    std::size_t act = 0;
    std::size_t step_ends = 0;
    Delays delays;
  };

  const MachineProfile& machine_;
  const HostProgram& program_;
  const std::vector<Act>& acts_;
  double host_scale_;
  bool own_host_;         // what its host's work takes is not the schedule's
  bool blocked_ = false;  // in its present act, whose work is done
  TellDelays tell_delays_;
  std::uint32_t issued_ = 0;
  Draws host_draws_;
  Nanoseconds host_now_;
  std::size_t most_ahead_;  // unfinished ops that a host leaves behind while it goes ahead
  std::size_t act_ = 0;
  std::size_t end_;  // acts it lives to do
  std::vector<Nanoseconds> step_ends_;
  std::vector<Nanoseconds> idle_for_ranks_;
  const StepPeriod* period_;  // null: nobody asks for cuts
  std::size_t next_cut_ = 0;
  std::vector<Cut> cuts_;  // a ring
  Delays delays_;          // of its host, where they are told
  Course mark_;
  Engine engine_;
};

}  // namespace foreshard::sim
