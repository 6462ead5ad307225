#include "sim/ranks/rank.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

/// How many actions it does before it dies: those up to the last compute op of the step before.
std::size_t end_of_life(const HostProgram& program, std::uint32_t dead_from) {
  if (dead_from == 0) return 0;
  if (dead_from > program.step_ends.size()) return program.actions.size();
  std::uint32_t to_issue = program.step_ends[dead_from - 1].value + 1;
  std::size_t end = 0;
  while (to_issue > 0)
    if (program.actions[end++].kind == HostProgram::Action::Kind::issue) --to_issue;
  return end;
}

}  // namespace

Rank::Rank(const MachineProfile& machine, const HostProgram& program, const RankTraits& traits, double host_scale,
           const Jitter& jitter, RateTable* rates, bool paced)
    : machine_(machine),
      program_(program),
      host_scale_(host_scale * traits.host),
      host_draws_{jitter.host, mixed(traits.draws, static_cast<std::uint64_t>(DrawsFor::host_work))},
      engine_(machine, program.table,
              {.keep_timings = false,
               .joint = true,
               .kernel_work = traits.kernels,
               .kernel_draws = {jitter.kernels, mixed(traits.draws, static_cast<std::uint64_t>(DrawsFor::kernels))},
               .rates = rates,
               .short_ways = rates != nullptr,
               .paced = paced}),
      host_now_{traits.begin},
      end_(end_of_life(program, traits.dead_from)) {}

HostStop Rank::host_stop() const {
  switch (blocked_) {
    case Blocked::queue:
      return HostStop::launch_queue;
    case Blocked::event:
      return HostStop::event;
    case Blocked::all:
      return HostStop::all;
    case Blocked::no:
      break;
  }
  return end_ < program_.actions.size() ? HostStop::dead : HostStop::program_end;
}

[[gnu::always_inline]] inline bool Rank::still_blocked() const {
  switch (blocked_) {
    case Blocked::queue:
      return engine_.unfinished(program_.table.op(OpId{issued_}).stream) >= machine_.launch_queue;
    case Blocked::event:
      return !engine_.complete(EventId{program_.actions[action_].event});
    case Blocked::all:
      return engine_.unfinished() > 0;
    case Blocked::no:
      break;
  }
  return false;
}

/// What blocked the host is over: it goes on when the GPU came to it, or where it was if that is later.
[[gnu::always_inline]] inline void Rank::go_on() {
  const Blocked why = blocked_;
  blocked_ = Blocked::no;
  if (why != Blocked::queue) ++action_;
  if (engine_.now() <= host_now_) return;
  host_now_ = engine_.now();
  if (why != Blocked::queue) host_now_ += machine_.latencies.synchronize;
}

[[gnu::always_inline]] inline void Rank::act() {
  using Kind = HostProgram::Action::Kind;
  const HostProgram::Action& action = program_.actions[action_];
  switch (action.kind) {
    case Kind::work: {  // all of it that lies before the GPU's next instant: nothing else happens meanwhile
      const HostProgram::Action* const actions = program_.actions.data();
      const Nanoseconds until = engine_.next();
      do {
        const std::int64_t ns = actions[action_].ns;
        double factor = host_scale_;
        if (host_draws_.any() && ns > 0) factor *= host_draws_.factor(action_);
        host_now_ += factor == 1 ? Nanoseconds{ns} : Nanoseconds{ns}.scaled(factor);
        ++action_;
      } while (action_ < end_ && actions[action_].kind == Kind::work && host_now_ < until);
      return;
    }
    case Kind::issue:
      if (machine_.launch_queue > 0 && !program_.table.op(OpId{issued_}).of_graph) {
        blocked_ = Blocked::queue;
        if (still_blocked()) return;
        blocked_ = Blocked::no;
      }
      engine_.issue(host_now_);
      ++issued_;
      ++action_;
      return;
    case Kind::wait_event:
      blocked_ = Blocked::event;
      break;
    case Kind::wait_all:
      blocked_ = Blocked::all;
      break;
  }
  if (!still_blocked()) go_on();
}

Nanoseconds Rank::next() const {
  if (can_act() && host_now_ < engine_.next()) return host_now_;
  return engine_.next();
}

void Rank::step(Nanoseconds until) {
  if (can_act() && host_now_ < engine_.next()) {
    act();
    return;
  }
  if (!engine_.advance_once(can_act() ? std::min(host_now_, until) : until)) return;
  while (step_ends_.size() < program_.step_ends.size() && engine_.ended(program_.step_ends[step_ends_.size()])) {
    step_ends_.push_back(engine_.now());
    idle_for_ranks_.push_back(engine_.idle_for_ranks());
  }
  if (blocked_ != Blocked::no && !still_blocked()) go_on();
}

void Rank::run() {
  while (engine_.meetings().empty() && next() != kNever) {
    while (can_act() && host_now_ < engine_.next()) act();
    step();
  }
}

void Rank::run_before(Nanoseconds until) {
  while (engine_.meetings().empty() && next() < until) step(until);
}

}  // namespace foreshard::sim
