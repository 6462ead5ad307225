#include "sim/ranks/rank.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

using Kind = HostProgram::Action::Kind;

/// How many unfinished ops a host leaves behind it while it goes ahead: more than launch queues hold, and little
/// memory.
constexpr std::size_t kMaxAhead = 4096;

}  // namespace

Rank::Rank(const MachineProfile& machine, const HostProgram& program, const HostSchedule& schedule,
           const RankTraits& traits, double host_scale, const Jitter& jitter, RateTable* rates, bool paced,
           const StepPeriod* period, TellDelays delays)
    : machine_(machine),
      program_(program),
      acts_(schedule.acts()),
      host_scale_(host_scale * traits.host),
      own_host_(traits.host != 1 || jitter.host.deviation > 0 || rates == nullptr || delays != TellDelays::no),
      tell_delays_(delays),
      host_draws_{jitter.host, mixed(traits.draws, static_cast<std::uint64_t>(DrawsFor::host_work))},
      host_now_{traits.begin},
      most_ahead_(rates == nullptr           ? 0
                  : delays == TellDelays::no ? kMaxAhead
                                             : DelayTrack::kIssued / 2),
      end_(schedule.acts_before(traits.dead_from)),
      period_(jitter.kernels.deviation > 0 || jitter.host.deviation > 0 || traits.dead_from != kNeverDies ? nullptr
                                                                                                          : period),
      engine_(machine, program.table,
              {.keep_timings = false,
               .joint = true,
               .kernel_work = traits.kernels,
               .kernel_draws = {jitter.kernels, mixed(traits.draws, static_cast<std::uint64_t>(DrawsFor::kernels))},
               .rates = rates,
               .short_ways = rates != nullptr,
               .paced = paced,
               .tells_delays = delays != TellDelays::no,
               .all_work_delays = delays == TellDelays::of_all_work}) {}

void Rank::prefetch() const {
  const auto* const end = static_cast<const char*>(engine_.end_of_state());
  constexpr std::ptrdiff_t kLine = 64;
  for (const auto* at = reinterpret_cast<const char*>(this); at < end; at += kLine) __builtin_prefetch(at, 1);
}

HostStop Rank::host_stop() const {
  if (!blocked_) return end_ < acts_.size() ? HostStop::dead : HostStop::program_end;
  switch (acts_[act_].kind) {
    case Kind::wait_event:
      return HostStop::event;
    case Kind::wait_all:
      return HostStop::all;
    case Kind::issue:
    case Kind::work:
    case Kind::driver_call:
      break;
  }
  return HostStop::launch_queue;
}

[[gnu::always_inline]] inline bool Rank::is_held_up(const Act& act) const {
  switch (act.kind) {
    case Kind::issue:
      return !act.of_graph && machine_.launch_queue > 0 && engine_.unfinished(act.stream) >= machine_.launch_queue;
    case Kind::wait_event:
      return !engine_.complete(EventId{act.event});
    case Kind::wait_all:
      return engine_.unfinished() > 0;
    case Kind::work:
    case Kind::driver_call:
      break;
  }
  return false;
}

/// The work before the present act, of a host that is like no other, or whose delays are told.
std::int64_t Rank::own_work() {
  std::int64_t out = 0;
  for (std::size_t i = act_ == 0 ? 0 : acts_[act_ - 1].action + 1; i < acts_[act_].action; ++i) {
    const Nanoseconds piece{program_.actions[i].ns};
    if (program_.actions[i].kind == Kind::driver_call) {
      if (host_scale_ != 0) out += piece.count;
      continue;
    }
    double factor = host_scale_;
    if (host_draws_.any() && piece.count > 0) factor *= host_draws_.factor(i);
    out += factor == 1 ? piece.count : piece.scaled(factor).count;
  }
  if (tell_delays_ != TellDelays::no)
    delays_.of(Resource::host) += out - (tell_delays_ == TellDelays::of_all_work ? 0 : acts_[act_].work);
  return out;
}

[[gnu::always_inline]] inline void Rank::do_act(const Act& act) {
  if (act.kind == Kind::issue) {
    if (tell_delays_ != TellDelays::no) engine_.issue_delays(delays_);
    engine_.issue(host_now_);
    ++issued_;
  }
  ++act_;
}

[[gnu::always_inline]] inline void Rank::act() {
  const Act& act = acts_[act_];
  host_now_ += Nanoseconds{own_host_ ? own_work() : act.work};
  blocked_ = is_held_up(act);
  if (!blocked_) do_act(act);
}

/// What blocked the host is over.
[[gnu::always_inline]] inline void Rank::go_on() {
  const Act& act = acts_[act_];
  blocked_ = false;
  if (engine_.now() > host_now_) {
    host_now_ = engine_.now();
    if (tell_delays_ != TellDelays::no) delays_ = engine_.last_delays();
    if (act.kind != Kind::issue) host_now_ += machine_.latencies.synchronize;
  }
  do_act(act);
}

[[gnu::always_inline]] inline void Rank::go_ahead() {
  while (can_act() && (engine_.unfinished() < most_ahead_ || host_now_ < engine_.next())) act();
}

Nanoseconds Rank::next() const {
  if (can_act() && host_now_ < engine_.next()) return host_now_;
  return engine_.next();
}

/// The GPU's next instant.
[[gnu::always_inline]] inline void Rank::advance(Nanoseconds until) {
  if (!engine_.advance_once(can_act() ? std::min(host_now_, until) : until)) return;
  while (step_ends_.size() < program_.step_ends.size() && engine_.ended(program_.step_ends[step_ends_.size()])) {
    step_ends_.push_back(engine_.now());
    idle_for_ranks_.push_back(engine_.idle_for_ranks());
  }
  if (period_ != nullptr)
    while (next_cut_ < period_->cuts().size() && engine_.ended(period_->cuts()[next_cut_].op)) take_cut();
  if (blocked_ && !is_held_up(acts_[act_])) go_on();
}

void Rank::take_cut() {
  cuts_.resize(StepPeriod::kCuts);
  Cut& cut = cuts_[next_cut_ % StepPeriod::kCuts];
  const Cut before = std::exchange(cut, {state(), engine_.now(), engine_.idle_for_ranks(), false, {}, {}});
  cut.repeats = next_cut_ >= StepPeriod::kCuts && cut.state && cut.state == before.state;
  cut.took = cut.at - before.at;
  cut.idled = cut.idle_for_ranks - before.idle_for_ranks;
  ++next_cut_;
}

/// At the end of the next cut.
std::optional<Engine::State> Rank::state() const {
  const std::optional<OpId> first = period_->first_alike(next_cut_ / StepPeriod::kCuts);
  if (!first) return std::nullopt;
  const StepPeriod::Cut& cut = period_->cuts()[next_cut_];
  std::optional<Engine::State> out = engine_.state(cut.op, *first);
  if (!out) return std::nullopt;
  const std::int64_t host = (host_now_ - engine_.now()).count;
  // A host that is blocked goes on when its GPU lets it, and not before its own time.
  const std::int64_t from = blocked_ ? std::max<std::int64_t>(0, host) : host;
  for (const std::uint64_t part :
       {std::uint64_t{act_ - cut.acts}, static_cast<std::uint64_t>(from), std::uint64_t{blocked_}})
    out->own = mixed(out->own, part);
  return out;
}

void Rank::mark() {
  FORESHARD_CHECK(period_ == nullptr, "a rank whose cuts cannot be undone");
  mark_ = {blocked_, issued_, host_now_, act_, step_ends_.size(), delays_};
  engine_.mark();
}

void Rank::rewind() {
  blocked_ = mark_.blocked;
  issued_ = mark_.issued;
  host_now_ = mark_.host_now;
  act_ = mark_.act;
  delays_ = mark_.delays;
  step_ends_.resize(mark_.step_ends);
  idle_for_ranks_.resize(mark_.step_ends);
  engine_.rewind();
}

void Rank::step(Nanoseconds until) {
  if (can_act() && host_now_ < engine_.next())
    go_ahead();
  else
    advance(until);
}

void Rank::run_before(Nanoseconds until) {
  while (engine_.meetings().empty()) {
    go_ahead();
    if (engine_.next() >= until) return;
    advance(until);
  }
}

}  // namespace foreshard::sim
