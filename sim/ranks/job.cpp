#include "sim/ranks/job.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <set>
#include <utility>

#include "core/base/check.hpp"
#include "sim/parallel/workers.hpp"
#include "sim/ranks/ahead.hpp"
#include "sim/ranks/first_of.hpp"
#include "sim/ranks/job_network.hpp"
#include "sim/ranks/link_delays.hpp"

namespace foreshard::sim {
namespace {

/// Ranks that one thread takes at a time, of some microseconds each.
constexpr std::size_t kMinBatch = 4, kMaxBatch = 64;

/// The collective that a group of classes is at.
struct Round {
  std::uint32_t arrived = 0;  // classes
  std::uint32_t done = 0;
  Nanoseconds last_arrival;
  Nanoseconds last_end;
  std::uint32_t last_class = 0;       // to arrive
  std::vector<Nanoseconds> arrivals;  // by class of the group
  std::vector<bool> there;            // likewise
  std::vector<OpId> ops;              // likewise: what each calls
  std::vector<bool> over;             // likewise: it is done
  std::vector<Delays> delays;         // likewise, where they are told: as it arrived
  Delays delays_of_last;
  std::size_t last_step = 0;            // in which the last class was when it arrived
  std::optional<std::uint32_t> moving;  // its place among its communicator's, where it shares links
  Nanoseconds time;                     // that it takes at its present rate
  std::int64_t most_pace = kFullRate;   // that links could leave it
  Nanoseconds expected;                 // the latest arrival, or end, that a class came to going ahead
};

class JobSimulation {
 public:
  JobSimulation(const MachineProfile& machine, const JobRequest& request) : request_(request) {
    check();
    for (const CommunicatorOptions& options : request.programs[0]->communicators)
      job_.communicators.push_back(groups_of(options));
    find_communicators();
    find_network(machine);
    job_.classes = rank_classes(request.ranks, groups_, request.fold, network_ ? &network_->shared_links() : nullptr);
    workers_.emplace(std::min<std::size_t>(request.threads, (job_.classes.classes.size() + kMinBatch - 1) / kMinBatch));
    for (const RankClasses::Class& about : job_.classes.classes)
      group_of_.insert(group_of_.end(), about.group.begin(), about.group.end());
    if (network_) find_groups();
    goes_ahead_ = network_ && request.ahead;
    if (request.short_ways)
      for (const HostProgram* program : request.programs) rates_.emplace_back(machine, program->table);
    for (const HostProgram* program : request.programs) schedules_.emplace_back(*program, request.host_scale);
    if (request.last_step && request.repeat_steps && !network_ && !beside() && request.keep_meetings.empty())
      for (std::size_t i = 0; i < schedules_.size(); ++i) periods_.emplace_back(*request.programs[i], schedules_[i]);
    if (request.tells_delays) {
      link_delays_ = LinkDelays(request.programs);
      tell_delays_ = link_delays_.same_kernels() ? TellDelays::of_factors : TellDelays::of_all_work;
    }
    keep_.resize(job_.classes.classes.size());
    for (const std::uint32_t rank : request.keep_meetings) keep_[job_.classes.of_rank[rank]] = true;
    for (std::size_t i = 0; i < job_.classes.classes.size(); ++i) {
      const RankTraits& traits = request.ranks[job_.classes.classes[i].first];
      ranks_.emplace_back(machine, *request.programs[traits.program], schedules_[traits.program], traits,
                          request.host_scale, request.jitter, request.short_ways ? &rates_[traits.program] : nullptr,
                          job_.paced, periods_.empty() ? nullptr : &periods_[traits.program], tell_delays_);
    }
    rounds_.resize(job_.classes.groups.size());
    pending_.resize(ranks_.size());
    answers_.resize(ranks_.size());
    job_.ranks.resize(ranks_.size());
    if (!periods_.empty()) awaited_between_.resize(ranks_.size());
    if (goes_ahead_) set_up_ahead();
  }

  Job run() {
    if (goes_ahead_)
      run_ahead_of_rates();
    else
      network_ ? run_in_order() : run_ahead();
    const bool left = seen_enough();
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const auto steps = static_cast<std::ptrdiff_t>(steps_by(i, left_at_));
      job_.ranks[i].step_ends.assign(ranks_[i].step_ends().begin(), ranks_[i].step_ends().begin() + steps);
      job_.ranks[i].idle_for_ranks.assign(ranks_[i].idle_for_ranks().begin(),
                                          ranks_[i].idle_for_ranks().begin() + steps);
      job_.ranks[i].awaited_in.resize(std::max(job_.ranks[i].awaited_in.size(), job_.ranks[i].step_ends.size()));
      if (job_.repeated) repeat(i);
      if (!left && is_own(i) && !ranks_[i].finished()) job_.stuck.push_back(stuck(i));
    }
    return std::move(job_);
  }

 private:
  void run_ahead() {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) runnable_.push_back(i);
    do {
      while (!runnable_.empty() && !seen_enough()) run_all();
    } while (!seen_enough() && force_first());
  }

  /// Of two jobs the one with fewer has more, of one rank each, in which nothing happens.
  void find_communicators() {
    for (const StridedGroups& own : job_.communicators) groups_.push_back({own, request_.own_ranks, {}});
    if (!beside()) return;
    const std::vector<CommunicatorOptions>& others = communicators_beside();
    for (std::size_t c = 0; c < others.size(); ++c) {
      if (c == groups_.size()) groups_.push_back({{}, request_.own_ranks, {}});
      groups_[c].beside = groups_of(others[c]);
    }
  }

  [[nodiscard]] bool beside() const { return request_.own_ranks < request_.ranks.size(); }
  [[nodiscard]] const std::vector<CommunicatorOptions>& communicators_beside() const {
    return request_.programs[request_.ranks[request_.own_ranks].program]->communicators;
  }

  void find_network(const MachineProfile& machine) {
    if (request_.fabric.collectives == nullptr) return;
    const auto ranks = static_cast<std::uint32_t>(request_.ranks.size());
    std::vector<JobOnNetwork> jobs{{request_.programs[0]->communicators, std::min(ranks, request_.own_ranks)}};
    if (beside()) jobs.push_back({communicators_beside(), ranks - request_.own_ranks});
    network_.emplace(machine, *request_.fabric.collectives, jobs, request_.fabric.node_ranks, request_.fabric.flaps);
    job_.paced = network_->meets();
    job_.jobs_meet = network_->jobs_meet();
    if (!job_.paced) network_.reset();
  }

  void find_groups() {
    std::vector<JobNetwork::Together> together(job_.classes.groups.size());
    for (std::uint32_t c = 0; c < groups_.size(); ++c)
      for (const std::uint32_t first : network_->groups(c)) {
        JobNetwork::Together& one = together[group_of(job_.classes.of_rank[first], {c})];
        one.communicator = c;
        one.groups.push_back(first);
      }
    network_->set_flows(together);
  }

  /// The rank whose next instant is the first goes on until another one's is.
  void run_in_order() {
    FirstOf order(ranks_.size());
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) order.set(i, ranks_[i].next());
    links_change_at_ = network_->next_change({});
    for (;;) {
      const Nanoseconds now = order.time();
      const Nanoseconds change = next_change(now);
      if (now > change) {
        change_rates(change);
      } else {
        if (now == kNever) return;
        const auto first = static_cast<std::uint32_t>(order.first());
        const std::size_t steps = ranks_[first].step_ends().size();
        order.set(first, kNever);
        const Nanoseconds behind_now{now.count + 1};
        const Nanoseconds until = rates_change_at_ ? behind_now : std::max(order.time(), behind_now);
        ranks_[first].run_before(change == kNever ? until : std::min(until, Nanoseconds{change.count + 1}));
        touched_.push_back(first);
        take_meetings(first);
        if (ranks_[first].step_ends().size() != steps && seen_enough()) return;
      }
      for (const std::uint32_t rank : touched_) order.set(rank, ranks_[rank].next());
      touched_.clear();
    }
  }

  /// Each rank goes on to its next meeting, as if nothing of others came before, and back to where it was marked if
  /// something does. The first meeting of all holds, and so does all before it: whatever others still do is later.
  /// A rank is left alone until its next meeting may be the first.
  void run_ahead_of_rates() {
    links_change_at_ = network_->next_change({});
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) batch_.push_back(i);
    go_on();
    for (;;) {
      const Nanoseconds next = order_->time();
      const Nanoseconds change = next_change(next);
      if (request_.last_step) left_at_ = {-ends_->time().count};
      if (std::min(next, change) > left_at_) break;
      if (next > change) {
        now_ = change;
        change_rates(change);
        continue;
      }
      if (next == kNever) {
        if (go_on_before(kNever)) continue;
        return;
      }
      now_ = next;
      const auto first = static_cast<std::uint32_t>(order_->first());
      if (!ahead_[first].meetings.empty()) {
        take_ahead(first);
        continue;
      }
      order_->each_to(now_, [&](std::size_t one) {
        if (ahead_[one].meetings.empty()) batch_.push_back(static_cast<std::uint32_t>(one));
      });
      for (const std::uint32_t one : free_)
        if (ahead_[one].is_free && order_->of(one) > now_) batch_.push_back(one);
      go_on();
    }
    static_cast<void>(go_on_before({left_at_.count + 1}));
  }

  void set_up_ahead() {
    order_.emplace(ranks_.size());
    ends_.emplace(ranks_.size());
    if (request_.last_step)
      for (std::uint32_t i = 0; i < ranks_.size(); ++i)
        if (is_own(i)) ends_->set(i, {-kNever.count});
    ahead_ = std::vector<Ahead>(ranks_.size());
    for (const HostProgram* program : request_.programs) needs_.emplace_back(program->table);
  }

  /// The ranks of batch_, each once, to their next meetings, before `until`; none: as far as may not be in vain.
  void go_on(std::optional<Nanoseconds> until = {}) {
    for_batches(batch_, [&](std::uint32_t one) { go_ahead(one, until); });
    for (const std::uint32_t one : batch_) {
      const Ahead& ahead = ahead_[one];
      order_->set(one, ahead.meetings.empty() ? std::max(ahead.then, ahead.next.earliest()) : ahead.reached);
      for (const Meeting& meeting : ahead.meetings) {
        Round& round = rounds_[group_of(one, meeting.communicator)];
        round.expected = std::max(round.expected, meeting.at);
      }
      if (request_.last_step && is_own(one)) ends_->set(one, {-ahead.last_end.count});
    }
    batch_.clear();
    free_.clear();  // those that are free still are in batch_
  }

  /// All that came to no meeting, and have more to do, up to then; false where there are none.
  bool go_on_before(Nanoseconds until) {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const Ahead& ahead = ahead_[i];
      if (ahead.meetings.empty() && (ahead.then < until || !ahead.answers.empty())) batch_.push_back(i);
    }
    const bool any = !batch_.empty();
    go_on(until);
    return any;
  }

  /// On any thread.
  void go_ahead(std::uint32_t index, std::optional<Nanoseconds> until) {
    Ahead& ahead = ahead_[index];
    Rank& rank = ranks_[index];
    Engine& engine = rank.engine();
    if (ahead.goes_back) rank.rewind();
    if (ahead.told) engine.clear_meetings();
    if (ahead.is_ahead) ahead.stands = ahead.next;  // it stopped before what holds now
    ahead.goes_back = ahead.told = ahead.is_ahead = ahead.is_free = false;
    for (const Answer& answer : ahead.answers) {
      rank.run_before(answer.behind ? Nanoseconds{answer.at.count + 1} : answer.at);
      FORESHARD_CHECK(engine.meetings().empty(), "a meeting before the first of all");
      give(engine, answer);
    }
    ahead.answers.clear();
    const Nanoseconds end = until ? *until : expected_answer(index);
    if (rank.next() < end) {
      ahead.is_marked = !ahead.stands.is_free();
      if (ahead.is_marked) rank.mark();
      ahead.is_ahead = true;
      rank.run_before(end);
    }
    const std::span<const Meeting> meetings = engine.meetings();
    for (const Meeting& meeting : meetings) {
      FORESHARD_CHECK(meeting.at >= now_, "a meeting before the first of all");
      ahead.meetings.push_back(meeting);
    }
    ahead.reached = engine.now();
    ahead.then = rank.next();
    ahead.step = rank.step_ends().size();
    ahead.last_end =
        request_.last_step && ahead.step > *request_.last_step ? rank.step_ends()[*request_.last_step] : kNever;
    ByCommunicator<std::int64_t> most_pace;
    for (std::uint32_t c = 0; c < groups_.size(); ++c) most_pace.push_back(rounds_[group_of(index, {c})].most_pace);
    const RankTraits& traits = request_.ranks[job_.classes.classes[index].first];
    ahead.next.find(engine, needs_[traits.program], request_.jitter.kernels.deviation > 0 ? 0 : traits.kernels,
                    most_pace);
    if (!ahead.is_ahead) ahead.stands = ahead.next;
  }

  /// A guess at when the rank hears of others; kNever: it waits for none, or none is known of. Beyond it the rank would
  /// go in vain.
  [[nodiscard]] Nanoseconds expected_answer(std::uint32_t rank) const {
    Nanoseconds out = kNever;
    for (std::uint32_t c = 0; c < groups_.size(); ++c) {
      if (!ahead_[rank].stands.waits({c})) continue;
      const Nanoseconds expected = rounds_[group_of(rank, {c})].expected;
      if (expected > now_) out = std::min(out, expected);
    }
    return out;
  }

  /// The meetings to which a rank came are the first of all.
  void take_ahead(std::uint32_t rank) {
    Ahead& ahead = ahead_[rank];
    meetings_.assign(ahead.meetings.begin(), ahead.meetings.end());
    ahead.meetings.clear();
    ahead.stands = ahead.next;
    ahead.is_ahead = false;
    ahead.told = true;
    ahead.then = {};
    order_->set(rank, std::max(now_, ahead.stands.earliest()));
    for (const Meeting& meeting : meetings_) take(rank, meeting);
  }

  /// Is given when the rank goes on.
  void answer_ahead(std::uint32_t rank, const Answer& answer) {
    Ahead& ahead = ahead_[rank];
    if (answer.what == Answer::What::pace && !ahead.stands.set_pace(answer.communicator, answer.pace)) return;
    if (ahead.is_ahead) {
      ahead.goes_back = ahead.reached > answer.at || (!answer.behind && ahead.reached == answer.at);
      FORESHARD_CHECK(ahead.goes_back ? ahead.is_marked : ahead.meetings.empty(), "a meeting before the first of all");
      ahead.meetings.clear();
      if (!ahead.goes_back) {
        ahead.stands = ahead.next;
        if (answer.what == Answer::What::pace) ahead.stands.set_pace(answer.communicator, answer.pace);
      } else if (ahead.last_end > answer.at && request_.last_step && is_own(rank)) {
        ahead.last_end = kNever;
        ends_->set(rank, {-kNever.count});
      }
      ahead.is_ahead = false;
    }
    if (answer.what == Answer::What::all_there)
      ahead.stands.begin(answer.communicator, answer.at, rounds_[group_of(rank, answer.communicator)].most_pace);
    if (answer.what == Answer::What::all_done) ahead.stands.end(answer.communicator, answer.at);
    ahead.answers.push_back(answer);
    order_->set(rank, std::max(answer.at, ahead.stands.earliest()));
    if (std::exchange(ahead.is_free, ahead.stands.is_free()) || !ahead.is_free) return;
    free_.push_back(rank);
  }

  /// Of a rank's steps those that ended by then.
  [[nodiscard]] std::size_t steps_by(std::uint32_t rank, Nanoseconds at) const {
    const std::vector<Nanoseconds>& ends = ranks_[rank].step_ends();
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
  }

  /// When rates change next. A link that changes is nothing to a job in which nothing happens any more.
  [[nodiscard]] Nanoseconds next_change(Nanoseconds now) const {
    const Nanoseconds link = now == kNever && moving_ == 0 ? kNever : links_change_at_;
    return std::min(link, rates_change_at_.value_or(kNever));
  }

  void begin_flows(std::uint32_t index, std::uint32_t rank, const Meeting& meeting, Nanoseconds at) {
    const RankClasses::Group& group = job_.classes.groups[index];
    if (!goes_ahead_) touched_.insert(touched_.end(), group.classes.begin(), group.classes.end());
    const std::uint32_t place = table_of(rank).op(meeting.op).communicator_place;
    if (!network_->begin(index, request_at(rank, group.communicator, place))) return;
    ++moving_;
    rounds_[index].moving = place;
    rounds_[index].most_pace = kFullRate;
    each_pace(index, network_->least_time(index), [&](std::size_t, std::int64_t pace) {
      rounds_[index].most_pace = std::max(rounds_[index].most_pace, pace);
    });
    rates_change_at_ = at;
  }

  void end_flows(std::uint32_t index, Nanoseconds at) {
    const RankClasses::Group& group = job_.classes.groups[index];
    if (!goes_ahead_) touched_.insert(touched_.end(), group.classes.begin(), group.classes.end());
    if (!rounds_[index].moving) return;
    network_->end(index);
    rounds_[index].moving.reset();
    --moving_;
    rounds_[index].time = {};
    rates_change_at_ = at;
  }

  /// Of all groups that move, behind all that happens at an instant at which one began or ended, or a link changed.
  void change_rates(Nanoseconds at) {
    rates_change_at_.reset();
    if (at == links_change_at_) {
      network_->change(at);
      links_change_at_ = network_->next_change(at);
    }
    network_->settle();
    for (const std::uint32_t index : network_->changed()) {
      const Nanoseconds time = network_->time(index);
      if (time != rounds_[index].time) set_time(index, time, at);
    }
  }

  /// What its collective takes from now on.
  void set_time(std::uint32_t index, Nanoseconds time, Nanoseconds at) {
    const RankClasses::Group& group = job_.classes.groups[index];
    Round& round = rounds_[index];
    round.time = time;
    each_pace(index, time, [&](std::size_t i, std::int64_t pace) {
      const std::uint32_t rank = group.classes[i];
      FORESHARD_CHECK(pace <= round.most_pace, "a collective faster than alone");
      if (keep_[rank]) job_.ranks[rank].meetings[group.communicator].back().paces.push_back({at, pace});
      if (round.over[i]) return;
      answer(rank, {Answer::What::pace, {group.communicator}, at, pace, true, {}});
      if (!goes_ahead_) touched_.push_back(rank);
    });
  }

  /// Calls `take` with the place of each class in a group that moves, and its pace where that takes `time`.
  template <class Take>
  void each_pace(std::uint32_t index, Nanoseconds time, const Take& take) {
    const RankClasses::Group& group = job_.classes.groups[index];
    const HostProgram* of = nullptr;
    std::int64_t pace = 0;
    for (std::size_t i = 0; i < group.classes.size(); ++i) {
      const std::uint32_t rank = group.classes[i];
      if (&program_of(rank) != of) pace = pace_of(rank, group.communicator, *rounds_[index].moving, time);
      of = &program_of(rank);
      take(i, pace);
    }
  }

  [[nodiscard]] std::int64_t pace_of(std::uint32_t rank, std::uint32_t communicator, std::uint32_t place,
                                     Nanoseconds time) {
    if (time == kNever) return 0;
    const std::int64_t priced = network_->priced(request_at(rank, communicator, place)).count;
    const std::int64_t whole = std::max<std::int64_t>(1, time.count);
    return std::max<std::int64_t>(1, (priced * kFullRate + whole / 2) / whole);
  }

  [[nodiscard]] const CollectiveRequest& request_at(std::uint32_t rank, std::uint32_t communicator,
                                                    std::uint32_t place) const {
    const HostProgram& program = program_of(rank);
    return program.requests[program.request_of[communicator][place]];
  }

  [[nodiscard]] const HostProgram& program_of(std::uint32_t rank) const {
    return *request_.programs[request_.ranks[job_.classes.classes[rank].first].program];
  }

  [[nodiscard]] bool is_own(std::uint32_t rank) const { return job_.classes.classes[rank].first < request_.own_ranks; }

  [[nodiscard]] bool seen_enough() {
    if (!request_.last_step) return false;
    while (!periods_.empty() && !job_.repeated && next_cut_ < periods_[0].cuts().size() && all_at(next_cut_)) {
      if (repeats(next_cut_)) job_.repeated = next_cut_ / StepPeriod::kCuts;
      ++next_cut_;
    }
    if (job_.repeated) return true;
    for (std::uint32_t i = 0; i < ranks_.size(); ++i)
      if (is_own(i) && ranks_[i].step_ends().size() <= *request_.last_step) return false;
    return true;
  }

  [[nodiscard]] bool all_at(std::size_t cut) const {
    return std::all_of(ranks_.begin(), ranks_.end(), [cut](const Rank& rank) { return rank.cuts() > cut; });
  }

  /// At this cut all ranks stood as a step before, in the same distance from one another, with no collective that only
  /// some of them had begun, or done. What their hosts have issued lies in steps that are alike, up to one behind the
  /// last that is wanted.
  [[nodiscard]] bool repeats(std::size_t index) const {
    const std::size_t step = index / StepPeriod::kCuts;
    if (step == 0 || step > *request_.last_step || ranks_[0].cuts() - index > StepPeriod::kCuts) return false;
    for (const StepPeriod& period : periods_)
      if (!period.alike(index - StepPeriod::kCuts, *request_.last_step)) return false;
    const Rank::Cut& first = ranks_[0].cut(index);
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      const Rank::Cut& cut = rank.cut(index);
      if (rank.cuts() - index > StepPeriod::kCuts || rank.issued() > program_of(i).step_ends[step].value + 1 ||
          !cut.repeats || cut.took != first.took || cut.state->rounds != first.state->rounds)
        return false;
    }
    return true;
  }

  /// The rest of the step is as it was a step before, and so are those behind it.
  void repeat(std::uint32_t rank) {
    const std::size_t step = *job_.repeated;
    const Rank::Cut& cut = ranks_[rank].cut(next_cut_ - 1);
    JobRank& out = job_.ranks[rank];
    out.step_ends.resize(step);
    out.idle_for_ranks.resize(step);
    out.awaited_in.resize(step);
    auto& between = awaited_between_[rank];
    between.resize(step + 1);
    Awaited awaited;
    for (std::size_t part = 0; part <= StepPeriod::kCuts; ++part)
      awaited += between[step - (part <= (next_cut_ - 1) % StepPeriod::kCuts ? 0 : 1)][part];
    while (out.step_ends.size() <= *request_.last_step) {
      out.step_ends.push_back(out.step_ends.back() + cut.took);
      out.idle_for_ranks.push_back(out.idle_for_ranks.back() + cut.idled);
      out.awaited_in.push_back(awaited);
    }
  }

  /// Every rank that can go on, as far as it can alone: no rank's way depends on another one's until they meet.
  void run_all() {
    std::vector<std::uint32_t> now;
    now.swap(runnable_);
    told_.resize(ranks_.size());
    for_batches(now, [&](std::uint32_t rank) {
      give_answer(rank);
      ranks_[rank].run();
      told_[rank] = ranks_[rank].engine().take_meeting();
    });
    for (const std::uint32_t rank : now)
      if (told_[rank])
        take_meeting(rank, *told_[rank]);
      else
        take_meetings(rank);
  }

  /// `run` of each of these ranks, on all threads.
  template <class Run>
  void for_batches(const std::vector<std::uint32_t>& ranks, const Run& run) {
    const std::size_t size =
        std::clamp(ranks.size() / (4 * std::max<std::size_t>(request_.threads, 1)), kMinBatch, kMaxBatch);
    const auto run_batch = [&](std::size_t batch) {
      const std::size_t end = std::min(ranks.size(), (batch + 1) * size);
      for (std::size_t i = batch * size; i < end; ++i) {
        if (i + 2 < end) ranks_[ranks[i + 2]].prefetch();
        if (i + 1 < end) ranks_[ranks[i + 1]].prefetch_times();
        run(ranks[i]);
      }
    };
    workers_->for_each(static_cast<std::uint32_t>((ranks.size() + size - 1) / size), run_batch);
  }

  void check() const {
    FORESHARD_CHECK(!request_.programs.empty() && !request_.ranks.empty(), "a job without ranks");
    FORESHARD_CHECK(request_.own_ranks > 0 && (!beside() || request_.last_step), "a job beside one that has an end");
    for (std::size_t i = 0; i < request_.ranks.size() && i < request_.own_ranks; ++i)
      FORESHARD_CHECK(request_.programs[request_.ranks[i].program]->communicators.size() ==
                          request_.programs[0]->communicators.size(),
                      "programs of one job have the same communicators");
  }

  [[nodiscard]] std::uint32_t group_of(std::uint32_t rank, CommunicatorId communicator) const {
    return group_of_[rank * groups_.size() + communicator.value];
  }

  [[nodiscard]] static std::size_t place_of(std::uint32_t rank, const std::vector<std::uint32_t>& classes) {
    if (classes.back() - classes.front() + 1 == classes.size()) return rank - classes.front();
    return static_cast<std::size_t>(std::lower_bound(classes.begin(), classes.end(), rank) - classes.begin());
  }

  void take_meetings(std::uint32_t rank) {
    const std::span<const Meeting> meetings = ranks_[rank].engine().meetings();
    meetings_.assign(meetings.begin(), meetings.end());
    ranks_[rank].engine().clear_meetings();
    pending_[rank] += static_cast<std::uint32_t>(meetings_.size());
    for (const Meeting& meeting : meetings_) take(rank, meeting);
  }

  void take_meeting(std::uint32_t rank, const Meeting& meeting) {
    ++pending_[rank];
    take(rank, meeting);
  }

  void take(std::uint32_t rank, const Meeting& meeting) {
    meeting.kind == Meeting::Kind::arrived ? arrive(rank, meeting) : end(rank, meeting);
  }

  std::vector<MeetingTimes>& meetings_of(std::uint32_t rank, const Meeting& meeting) {
    MeetingScript& script = job_.ranks[rank].meetings;
    script.resize(groups_.size());
    return script[meeting.communicator.value];
  }

  void arrive(std::uint32_t rank, const Meeting& meeting) {
    const std::uint32_t index = group_of(rank, meeting.communicator);
    Round& round = rounds_[index];
    const std::vector<std::uint32_t>& classes = job_.classes.groups[index].classes;
    round.arrivals.resize(classes.size());
    round.there.resize(classes.size());
    round.ops.resize(classes.size());
    round.over.resize(classes.size());
    const std::size_t place = place_of(rank, classes);
    round.arrivals[place] = meeting.at;
    round.there[place] = true;
    round.ops[place] = meeting.op;
    if (tell_delays_ != TellDelays::no) {
      round.delays.resize(classes.size());
      round.delays[place] = ranks_[rank].engine().arrival_delays(meeting.communicator);
    }
    // Of several at the same instant the lowest class, whoever was simulated first.
    if (round.arrived == 0 || meeting.at > round.last_arrival ||
        (meeting.at == round.last_arrival && rank < round.last_class)) {
      round.last_arrival = meeting.at;
      round.last_class = rank;
      round.last_step = goes_ahead_ ? ahead_[rank].step : 0;
    }
    if (++round.arrived < classes.size()) return;
    for (std::size_t i = 1; i < classes.size(); ++i)
      if (!is_same_call(classes[0], round.ops[0], classes[i], round.ops[i])) return;  // nobody ever hears of it
    if (network_) begin_flows(index, rank, meeting, round.last_arrival);
    JobRank& last = job_.ranks[round.last_class];
    // The last one to come is in it.
    const std::size_t step = goes_ahead_ ? round.last_step : ranks_[round.last_class].step_ends().size();
    if (last.awaited_in.size() <= step) last.awaited_in.resize(step + 1);
    Awaited* const between = awaited_between(round.last_class, step);
    if (tell_delays_ != TellDelays::no) round.delays_of_last = round.delays[place_of(round.last_class, classes)];
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const Nanoseconds wait = round.last_arrival - round.arrivals[i];
      job_.ranks[classes[i]].waited += wait;
      const std::uint32_t count = job_.classes.classes[classes[i]].count;
      const Awaited by = tell_delays_ == TellDelays::no
                             ? awaited_for(wait, count)
                             : awaited_for(round.delays_of_last, round.delays[i], wait, count);
      last.awaited += by;
      last.awaited_in[step] += by;
      if (between != nullptr) *between += by;
      if (keep_[classes[i]]) meetings_of(classes[i], meeting).push_back({round.last_arrival, {}});
      answer(classes[i], {Answer::What::all_there, meeting.communicator, round.last_arrival, 0, classes[i] < rank, {}});
    }
    round.expected = {};
  }

  /// Where all ranks go on behind a collective: those of the last that came to it, and by what its links add.
  [[nodiscard]] Delays delays_at_end(const Round& round, std::uint32_t rank, const Meeting& meeting) const {
    if (tell_delays_ == TellDelays::no) return {};
    Delays out = round.delays_of_last;
    link_delays_.add(request_.ranks[job_.classes.classes[rank].first].program, meeting.op, out);
    return out;
  }

  /// NCCL puts the calls of a communicator together by their order alone, and cannot go on where they are not of one
  /// kind and size.
  [[nodiscard]] bool is_same_call(std::uint32_t rank, OpId op, std::uint32_t other, OpId of_other) const {
    if (&program_of(rank) == &program_of(other)) return true;
    const OpTable::Op& a = table_of(rank).op(op);
    const OpTable::Op& b = table_of(other).op(of_other);
    const bool asks = !program_of(rank).request_of[a.communicator.value].empty();
    if (asks == program_of(other).request_of[b.communicator.value].empty()) return false;
    if (!asks) return a.work == b.work;  // programs that were logged without prices
    const CollectiveRequest& mine = request_at(rank, a.communicator.value, a.communicator_place);
    const CollectiveRequest& theirs = request_at(other, b.communicator.value, b.communicator_place);
    return mine.kind == theirs.kind && mine.bytes == theirs.bytes;
  }

  /// Where what is waited for this rank in this step is added up by the cuts that it has come to; null: nobody asks.
  Awaited* awaited_between(std::uint32_t rank, std::size_t step) {
    if (periods_.empty()) return nullptr;
    auto& steps = awaited_between_[rank];
    if (steps.size() <= step) steps.resize(step + 1);
    return &steps[step][std::min(ranks_[rank].cuts() - step * StepPeriod::kCuts, StepPeriod::kCuts)];
  }

  void end(std::uint32_t rank, const Meeting& meeting) {
    const std::uint32_t index = group_of(rank, meeting.communicator);
    Round& round = rounds_[index];
    round.last_end = std::max(round.last_end, meeting.at);
    const std::vector<std::uint32_t>& classes = job_.classes.groups[index].classes;
    round.over[place_of(rank, classes)] = true;
    if (++round.done < classes.size()) return;
    const Delays delays = delays_at_end(round, rank, meeting);
    for (const std::uint32_t other : classes) {
      if (keep_[other]) meetings_of(other, meeting).back().all_done = round.last_end;
      answer(other, {Answer::What::all_done, meeting.communicator, round.last_end, 0, other < rank, delays});
    }
    if (network_) end_flows(index, round.last_end);
    round.arrived = round.done = 0;
    round.there.assign(classes.size(), false);
    round.over.assign(classes.size(), false);
    round.expected = {};
  }

  /// The last answer that a rank waits for is given where it runs on, on its thread; in order of time, at once.
  void answer(std::uint32_t rank, const Answer& answer) {
    if (goes_ahead_) {
      answer_ahead(rank, answer);
      return;
    }
    if (network_) {
      give(ranks_[rank].engine(), answer);
      return;
    }
    answers_[rank] = answer;
    if (--pending_[rank] == 0)
      runnable_.push_back(rank);
    else
      give_answer(rank);
  }

  void give_answer(std::uint32_t rank) {
    std::optional<Answer> answer;
    answer.swap(answers_[rank]);
    if (answer) give(ranks_[rank].engine(), *answer);
  }

  void give(Engine& engine, const Answer& answer) const {
    switch (answer.what) {
      case Answer::What::all_there:
        return engine.release(answer.communicator, answer.at);
      case Answer::What::all_done:
        if (tell_delays_ != TellDelays::no) engine.set_delays(answer.communicator, answer.delays);
        return engine.finish(answer.communicator, answer.at);
      case Answer::What::pace:
        return engine.set_pace(answer.communicator, answer.pace, answer.at);
    }
  }

  /// Lets the rank whose next instant is the first go on though a collective of it waits, not beyond the next instant
  /// of any other, which may be the last to come to it; false where none can.
  bool force_first() {
    std::uint32_t first = 0;
    Nanoseconds others = kNever;
    for (std::uint32_t i = 1; i < ranks_.size(); ++i) {
      const Nanoseconds next = ranks_[i].next();
      others = std::min(others, std::max(next, ranks_[first].next()));
      if (next < ranks_[first].next()) first = i;
    }
    if (ranks_[first].next() == kNever) return false;
    ranks_[first].step(others);
    take_meetings(first);
    return true;
  }

  [[nodiscard]] const OpTable& table_of(std::uint32_t rank) const { return program_of(rank).table; }

  [[nodiscard]] StuckRank stuck(std::uint32_t rank) const {
    const Rank& one = ranks_[rank];
    StuckRank out{rank, one.host_stop(), one.issued(), static_cast<std::uint32_t>(one.step_ends().size()), {}};
    for (const Stuck& stuck : one.engine().stuck()) {
      const CommunicatorId communicator = table_of(rank).op(stuck.op).communicator;
      if (stuck.reason != Stuck::Reason::peers || !communicator.valid()) continue;
      std::vector<std::uint32_t> absent = absent_beside(rank, communicator);
      if (absent.empty()) continue;  // its own part is done
      out.waits.push_back(
          {communicator, stuck.op, stuck.issued, job_.communicators[communicator.value].ranks, std::move(absent)});
    }
    return out;
  }

  /// Of the groups of the class's ranks those ranks that have not begun the collective that it is at, another one in
  /// its place among them.
  [[nodiscard]] std::vector<std::uint32_t> absent_beside(std::uint32_t rank, CommunicatorId communicator) const {
    const JobGroups& groups = groups_[communicator.value];
    const std::uint32_t index = group_of(rank, communicator);
    const std::vector<std::uint32_t>& classes = job_.classes.groups[index].classes;
    const Round& round = rounds_[index];
    const auto op_of = [&](std::uint32_t one) { return round.ops[place_of(one, classes)]; };
    const auto is_there = [&](std::uint32_t other) {
      const std::uint32_t one = job_.classes.of_rank[other];
      const std::size_t place = place_of(one, classes);
      return place < round.there.size() && round.there[place] && is_same_call(rank, op_of(rank), one, op_of(one));
    };
    std::set<std::uint32_t> first;  // by its lowest rank each group
    for (std::uint32_t i = 0; i < job_.classes.of_rank.size(); ++i)
      if (job_.classes.of_rank[i] == rank) first.insert(groups.first(i));
    std::vector<std::uint32_t> out;
    for (const std::uint32_t group : first)
      for (std::uint32_t i = 0; i < groups.own.ranks && group + i * groups.own.stride < job_.classes.of_rank.size();
           ++i)
        if (const std::uint32_t other = group + i * groups.own.stride; !is_there(other)) out.push_back(other);
    std::sort(out.begin(), out.end());
    return out;
  }

  const JobRequest& request_;
  std::optional<Workers> workers_;  // no more than there can be batches
  Job job_;
  std::vector<JobGroups> groups_;       // by communicator, of both jobs where there is one beside
  std::deque<RateTable> rates_;         // by program
  std::deque<HostSchedule> schedules_;  // by program
  std::deque<StepPeriod> periods_;      // by program; empty: every step is played
  TellDelays tell_delays_ = TellDelays::no;
  LinkDelays link_delays_;
  std::size_t next_cut_ = 0;  // to which not all ranks have come
  std::vector<std::vector<std::array<Awaited, StepPeriod::kCuts + 1>>> awaited_between_;  // by class, step and cuts
  std::deque<Rank> ranks_;                                                                // by class
  std::vector<std::uint32_t> group_of_;         // by class and communicator: its group of classes
  std::vector<Round> rounds_;                   // by group of classes
  std::vector<bool> keep_;                      // by class: its meetings are wanted
  std::vector<std::uint32_t> pending_;          // by class: meetings without an answer
  std::vector<std::optional<Answer>> answers_;  // by class: not yet given
  std::vector<std::uint32_t> runnable_;
  std::vector<Meeting> meetings_;               // scratch of take_meetings
  std::vector<std::optional<Meeting>> told_;    // scratch of run_all: by class that ran its one meeting, if it is one
  std::optional<JobNetwork> network_;           // where groups meet
  std::optional<Nanoseconds> rates_change_at_;  // collectives began or ended then
  Nanoseconds links_change_at_ = kNever;
  std::size_t moving_ = 0;              // groups of classes that share links
  std::vector<std::uint32_t> touched_;  // ranks whose next instant may have changed
  // Where ranks go ahead of rates that may change:
  bool goes_ahead_ = false;
  Nanoseconds now_;                   // up to here all holds
  std::optional<FirstOf> order_;      // by class: its next meeting, or a time before which it has none
  std::optional<FirstOf> ends_;       // by class of this job: the end of the last step, less than 0
  Nanoseconds left_at_ = kNever;      // the latest of them, when the job was left
  std::vector<Ahead> ahead_;          // by class
  std::deque<MeetingNeeds> needs_;    // by program
  std::vector<std::uint32_t> batch_;  // classes to go on
  std::vector<std::uint32_t> free_;   // classes to whose next meetings nobody has anything to say
};

}  // namespace

Job simulate_job(const MachineProfile& machine, const JobRequest& request) {
  return JobSimulation(machine, request).run();
}

}  // namespace foreshard::sim
