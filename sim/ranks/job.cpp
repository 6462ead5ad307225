#include "sim/ranks/job.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <set>

#include "core/base/check.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/ranks/job_network.hpp"

namespace foreshard::sim {
namespace {

void add_awaited(Nanoseconds& awaited, Nanoseconds wait, std::uint32_t ranks) {
  std::int64_t all = 0;
  if (__builtin_mul_overflow(wait.count, std::int64_t{ranks}, &all) ||
      __builtin_add_overflow(awaited.count, all, &awaited.count))
    awaited = kNever;
}

/// The collective that a group of classes is at.
struct Round {
  std::uint32_t arrived = 0;  // classes
  std::uint32_t done = 0;
  Nanoseconds last_arrival;
  Nanoseconds last_end;
  std::uint32_t last_class = 0;         // to arrive
  std::vector<Nanoseconds> arrivals;    // by class of the group
  std::vector<bool> there;              // likewise
  std::vector<OpId> ops;                // likewise: what each calls
  std::optional<std::uint32_t> moving;  // its place among its communicator's, where it shares links
  Nanoseconds time;                     // that it takes at its present rate
};

/// Whose time is the first; of equal ones the lowest.
class FirstOf {
 public:
  explicit FirstOf(std::size_t count) : size_(std::bit_ceil(std::max<std::size_t>(count, 1))) {
    times_.assign(2 * size_, kNever);
  }
  void set(std::size_t i, Nanoseconds time) {
    times_[size_ + i] = time;
    for (std::size_t at = (size_ + i) / 2; at > 0; at /= 2) times_[at] = std::min(times_[2 * at], times_[2 * at + 1]);
  }
  [[nodiscard]] Nanoseconds time() const { return times_[1]; }
  [[nodiscard]] std::size_t first() const {
    std::size_t at = 1;
    while (at < size_) at = times_[2 * at] <= times_[2 * at + 1] ? 2 * at : 2 * at + 1;
    return at - size_;
  }

 private:
  std::size_t size_;
  std::vector<Nanoseconds> times_;  // a tree of minima: of 2i and 2i + 1 at i
};

/// What a rank hears of a collective: that all are there, or done.
struct Answer {
  Meeting::Kind to = Meeting::Kind::arrived;
  CommunicatorId communicator;
  Nanoseconds at;
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
    for (const RankClasses::Class& about : job_.classes.classes)
      group_of_.insert(group_of_.end(), about.group.begin(), about.group.end());
    if (network_) find_groups();
    if (request.short_ways)
      for (const HostProgram* program : request.programs) rates_.emplace_back(machine, program->table);
    for (const HostProgram* program : request.programs) schedules_.emplace_back(*program, request.host_scale);
    if (request.last_step && request.repeat_steps && !network_ && !beside() && request.keep_meetings.empty())
      for (std::size_t i = 0; i < schedules_.size(); ++i) periods_.emplace_back(*request.programs[i], schedules_[i]);
    keep_.resize(job_.classes.classes.size());
    for (const std::uint32_t rank : request.keep_meetings) keep_[job_.classes.of_rank[rank]] = true;
    for (std::size_t i = 0; i < job_.classes.classes.size(); ++i) {
      const RankTraits& traits = request.ranks[job_.classes.classes[i].first];
      ranks_.emplace_back(machine, *request.programs[traits.program], schedules_[traits.program], traits,
                          request.host_scale, request.jitter, request.short_ways ? &rates_[traits.program] : nullptr,
                          job_.paced, periods_.empty() ? nullptr : &periods_[traits.program]);
    }
    rounds_.resize(job_.classes.groups.size());
    pending_.resize(ranks_.size());
    answers_.resize(ranks_.size());
    job_.ranks.resize(ranks_.size());
    if (!periods_.empty()) awaited_between_.resize(ranks_.size());
  }

  Job run() {
    network_ ? run_in_order() : run_ahead();
    const bool left = seen_enough();
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      job_.ranks[i].step_ends = ranks_[i].step_ends();
      job_.ranks[i].idle_for_ranks = ranks_[i].idle_for_ranks();
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
    members_.resize(job_.classes.groups.size());
    for (std::uint32_t c = 0; c < groups_.size(); ++c)
      for (const std::uint32_t first : network_->groups(c))
        members_[group_of(job_.classes.of_rank[first], {c})].push_back(first);
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

  /// When rates change next. A link that changes is nothing to a job in which nothing happens any more.
  [[nodiscard]] Nanoseconds next_change(Nanoseconds now) const {
    const Nanoseconds link = now == kNever && moving_ == 0 ? kNever : links_change_at_;
    return std::min(link, rates_change_at_.value_or(kNever));
  }

  void begin_flows(std::uint32_t index, std::uint32_t rank, const Meeting& meeting, Nanoseconds at) {
    const RankClasses::Group& group = job_.classes.groups[index];
    for (const std::uint32_t one : group.classes) touched_.push_back(one);
    const std::uint32_t place = table_of(rank).op(meeting.op).communicator_place;
    for (const std::uint32_t first : members_[index]) {
      if (!network_->begin(group.communicator, first, request_at(rank, group.communicator, place))) return;
      if (!rounds_[index].moving) ++moving_;
      rounds_[index].moving = place;
      rates_change_at_ = at;
    }
  }

  void end_flows(std::uint32_t index, Nanoseconds at) {
    const RankClasses::Group& group = job_.classes.groups[index];
    for (const std::uint32_t one : group.classes) touched_.push_back(one);
    if (!rounds_[index].moving) return;
    for (const std::uint32_t first : members_[index]) network_->end(group.communicator, first);
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
    for (std::uint32_t index = 0; index < rounds_.size(); ++index) {
      Round& round = rounds_[index];
      if (!round.moving) continue;
      const RankClasses::Group& group = job_.classes.groups[index];
      const Nanoseconds time = network_->time(group.communicator, members_[index][0]);
      if (time == round.time) continue;
      round.time = time;
      for (const std::uint32_t one : group.classes) set_pace(one, group.communicator, *round.moving, time, at);
    }
  }

  void set_pace(std::uint32_t rank, std::uint32_t communicator, std::uint32_t place, Nanoseconds time, Nanoseconds at) {
    const std::int64_t priced = network_->priced(request_at(rank, communicator, place)).count;
    const std::int64_t whole = std::max<std::int64_t>(1, time.count);
    const std::int64_t pace = time == kNever ? 0 : std::max<std::int64_t>(1, (priced * kFullRate + whole / 2) / whole);
    ranks_[rank].engine().set_pace({communicator}, pace, at);
    if (keep_[rank]) job_.ranks[rank].meetings[communicator].back().paces.push_back({at, pace});
    touched_.push_back(rank);
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
    Nanoseconds awaited;
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
    constexpr std::size_t kBatch = 64;  // ranks: some milliseconds, beside which starting threads is nothing
    std::vector<std::uint32_t> now;
    now.swap(runnable_);
    told_.resize(now.size());
    const auto run = [&](std::size_t batch) {
      const std::size_t end = std::min(now.size(), (batch + 1) * kBatch);
      for (std::size_t i = batch * kBatch; i < end; ++i) {
        if (i + 2 < end) ranks_[now[i + 2]].prefetch();
        if (i + 1 < end) ranks_[now[i + 1]].prefetch_times();
        Rank& rank = ranks_[now[i]];
        give_answer(now[i]);
        rank.run();
        told_[i] = rank.engine().take_meeting();
      }
    };
    const std::size_t batches = (now.size() + kBatch - 1) / kBatch;
    for_each(batches, batches > 1 ? request_.threads : 1, run);
    for (std::size_t i = 0; i < now.size(); ++i)
      if (told_[i])
        take_meeting(now[i], *told_[i]);
      else
        take_meetings(now[i]);
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
    const std::size_t place = place_of(rank, classes);
    round.arrivals[place] = meeting.at;
    round.there[place] = true;
    round.ops[place] = meeting.op;
    // Of several at the same instant the lowest class, whoever was simulated first.
    if (round.arrived == 0 || meeting.at > round.last_arrival ||
        (meeting.at == round.last_arrival && rank < round.last_class)) {
      round.last_arrival = meeting.at;
      round.last_class = rank;
    }
    if (++round.arrived < classes.size()) return;
    for (std::size_t i = 1; i < classes.size(); ++i)
      if (!is_same_call(classes[0], round.ops[0], classes[i], round.ops[i])) return;  // nobody ever hears of it
    JobRank& last = job_.ranks[round.last_class];
    const std::size_t step = ranks_[round.last_class].step_ends().size();  // the last one to come is in it
    if (last.awaited_in.size() <= step) last.awaited_in.resize(step + 1);
    Nanoseconds* const between = awaited_between(round.last_class, step);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const Nanoseconds wait = round.last_arrival - round.arrivals[i];
      job_.ranks[classes[i]].waited += wait;
      add_awaited(last.awaited, wait, job_.classes.classes[classes[i]].count);
      add_awaited(last.awaited_in[step], wait, job_.classes.classes[classes[i]].count);
      if (between != nullptr) add_awaited(*between, wait, job_.classes.classes[classes[i]].count);
      if (keep_[classes[i]]) meetings_of(classes[i], meeting).push_back({round.last_arrival, {}});
      answer(classes[i], {Meeting::Kind::arrived, meeting.communicator, round.last_arrival});
    }
    if (network_) begin_flows(index, rank, meeting, round.last_arrival);
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
  Nanoseconds* awaited_between(std::uint32_t rank, std::size_t step) {
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
    if (++round.done < classes.size()) return;
    for (const std::uint32_t other : classes) {
      if (keep_[other]) meetings_of(other, meeting).back().all_done = round.last_end;
      answer(other, {Meeting::Kind::done, meeting.communicator, round.last_end});
    }
    if (network_) end_flows(index, round.last_end);
    round.arrived = round.done = 0;
    round.there.assign(classes.size(), false);
  }

  /// The last answer that a rank waits for is given where it runs on, on its thread; in order of time, at once.
  void answer(std::uint32_t rank, const Answer& answer) {
    answers_[rank] = answer;
    if (--pending_[rank] == 0 && !network_)
      runnable_.push_back(rank);
    else
      give_answer(rank);
  }

  void give_answer(std::uint32_t rank) {
    std::optional<Answer> answer;
    answer.swap(answers_[rank]);
    if (!answer) return;
    if (answer->to == Meeting::Kind::arrived)
      ranks_[rank].engine().release(answer->communicator, answer->at);
    else
      ranks_[rank].engine().finish(answer->communicator, answer->at);
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
  Job job_;
  std::vector<JobGroups> groups_;       // by communicator, of both jobs where there is one beside
  std::deque<RateTable> rates_;         // by program
  std::deque<HostSchedule> schedules_;  // by program
  std::deque<StepPeriod> periods_;      // by program; empty: every step is played
  std::size_t next_cut_ = 0;            // to which not all ranks have come
  std::vector<std::vector<std::array<Nanoseconds, StepPeriod::kCuts + 1>>> awaited_between_;  // by class, step and cuts
  std::deque<Rank> ranks_;                                                                    // by class
  std::vector<std::uint32_t> group_of_;         // by class and communicator: its group of classes
  std::vector<Round> rounds_;                   // by group of classes
  std::vector<bool> keep_;                      // by class: its meetings are wanted
  std::vector<std::uint32_t> pending_;          // by class: meetings without an answer
  std::vector<std::optional<Answer>> answers_;  // by class: not yet given
  std::vector<std::uint32_t> runnable_;
  std::vector<Meeting> meetings_;             // scratch of take_meetings
  std::vector<std::optional<Meeting>> told_;  // scratch of run_all: by rank that ran its one meeting, if it is one
  std::optional<JobNetwork> network_;         // where groups meet
  std::vector<std::vector<std::uint32_t>> members_;  // by group of classes: the lowest ranks of its groups
  std::optional<Nanoseconds> rates_change_at_;       // collectives began or ended then
  Nanoseconds links_change_at_ = kNever;
  std::size_t moving_ = 0;              // groups of classes that share links
  std::vector<std::uint32_t> touched_;  // ranks whose next instant may have changed
};

}  // namespace

Job simulate_job(const MachineProfile& machine, const JobRequest& request) {
  return JobSimulation(machine, request).run();
}

}  // namespace foreshard::sim
