#include "sim/ranks/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "core/base/check.hpp"

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
  std::uint32_t arrived = 0;        // classes
  std::uint32_t arrived_ranks = 0;  // of them
  std::uint32_t done = 0;
  Nanoseconds last_arrival;
  Nanoseconds last_end;
  std::uint32_t last_class = 0;  // to arrive
  std::vector<Nanoseconds> arrivals;
};

class JobSimulation {
 public:
  JobSimulation(const MachineProfile& machine, const JobRequest& request) : request_(request) {
    check();
    for (const CommunicatorOptions& options : request.programs[0]->communicators)
      job_.communicators.push_back(groups_of(options));
    job_.classes = rank_classes(request.ranks, job_.communicators, request.fold);
    keep_.resize(job_.classes.classes.size());
    for (const std::uint32_t rank : request.keep_meetings) keep_[job_.classes.of_rank[rank]] = true;
    for (std::size_t i = 0; i < job_.classes.classes.size(); ++i) {
      const RankTraits& traits = request.ranks[job_.classes.classes[i].first];
      ranks_.emplace_back(machine, *request.programs[traits.program], traits, request.host_scale);
    }
    rounds_.resize(job_.classes.groups.size());
    pending_.resize(ranks_.size());
    job_.ranks.resize(ranks_.size());
  }

  Job run() {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) runnable_.push_back(i);
    do {
      while (!runnable_.empty()) {
        const std::uint32_t rank = runnable_.front();
        runnable_.pop_front();
        ranks_[rank].run();
        take_meetings(rank);
      }
    } while (force_first());
    for (std::size_t i = 0; i < ranks_.size(); ++i) job_.ranks[i].step_ends = ranks_[i].step_ends();
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.finished(); })) tell_deadlock();
    return std::move(job_);
  }

 private:
  void check() const {
    FORESHARD_CHECK(!request_.programs.empty() && !request_.ranks.empty(), "a job without ranks");
    for (const HostProgram* program : request_.programs)
      FORESHARD_CHECK(program->communicators.size() == request_.programs[0]->communicators.size(),
                      "programs of one job have the same communicators");
  }

  [[nodiscard]] std::uint32_t group_of(std::uint32_t rank, CommunicatorId communicator) const {
    return job_.classes.classes[rank].group[communicator.value];
  }

  void take_meetings(std::uint32_t rank) {
    const std::vector<Meeting> meetings = ranks_[rank].engine().meetings();
    ranks_[rank].engine().clear_meetings();
    pending_[rank] += static_cast<std::uint32_t>(meetings.size());
    for (const Meeting& meeting : meetings)
      meeting.kind == Meeting::Kind::arrived ? arrive(rank, meeting) : end(rank, meeting);
  }

  std::vector<MeetingTimes>& meetings_of(std::uint32_t rank, const Meeting& meeting) {
    MeetingScript& script = job_.ranks[rank].meetings;
    script.resize(request_.programs[0]->communicators.size());
    return script[meeting.communicator.value];
  }

  void arrive(std::uint32_t rank, const Meeting& meeting) {
    const std::uint32_t index = group_of(rank, meeting.communicator);
    Round& round = rounds_[index];
    const std::vector<std::uint32_t>& classes = job_.classes.groups[index].classes;
    round.arrivals.resize(classes.size());
    const auto place = std::lower_bound(classes.begin(), classes.end(), rank) - classes.begin();
    round.arrivals[static_cast<std::size_t>(place)] = meeting.at;
    // Of several at the same instant the lowest class, whoever was simulated first.
    if (round.arrived == 0 || meeting.at > round.last_arrival ||
        (meeting.at == round.last_arrival && rank < round.last_class)) {
      round.last_arrival = meeting.at;
      round.last_class = rank;
    }
    round.arrived_ranks += job_.classes.classes[rank].count;
    if (++round.arrived < classes.size()) return;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const Nanoseconds wait = round.last_arrival - round.arrivals[i];
      job_.ranks[classes[i]].waited += wait;
      add_awaited(job_.ranks[round.last_class].awaited, wait, job_.classes.classes[classes[i]].count);
      if (keep_[classes[i]]) meetings_of(classes[i], meeting).push_back({round.last_arrival, {}});
      ranks_[classes[i]].engine().release(meeting.communicator, round.last_arrival);
      answer(classes[i]);
    }
  }

  void end(std::uint32_t rank, const Meeting& meeting) {
    const std::uint32_t index = group_of(rank, meeting.communicator);
    Round& round = rounds_[index];
    round.last_end = std::max(round.last_end, meeting.at);
    const std::vector<std::uint32_t>& classes = job_.classes.groups[index].classes;
    if (++round.done < classes.size()) return;
    for (const std::uint32_t other : classes) {
      if (keep_[other]) meetings_of(other, meeting).back().all_done = round.last_end;
      ranks_[other].engine().finish(meeting.communicator, round.last_end);
      answer(other);
    }
    round.arrived = round.arrived_ranks = round.done = 0;
  }

  void answer(std::uint32_t rank) {
    if (--pending_[rank] == 0) runnable_.push_back(rank);
  }

  /// Lets the rank whose next instant is the first go on though a collective of it waits; false where none can.
  bool force_first() {
    std::uint32_t first = 0;
    for (std::uint32_t i = 1; i < ranks_.size(); ++i)
      if (ranks_[i].next() < ranks_[first].next()) first = i;
    if (ranks_[first].next() == kNever) return false;
    ranks_[first].step();
    take_meetings(first);
    return true;
  }

  [[nodiscard]] const OpTable& table_of(std::size_t rank) const {
    return request_.programs[request_.ranks[job_.classes.classes[rank].first].program]->table;
  }

  void tell_deadlock() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].finished()) continue;
      const RankClasses::Class& about = job_.classes.classes[i];
      job_.deadlock += fmt::format("rank {}: ", about.first);
      std::string why;
      for (const Stuck& stuck : ranks_[i].engine().stuck()) {
        const CommunicatorId communicator = table_of(i).op(stuck.op).communicator;
        if (stuck.reason != Stuck::Reason::peers || !communicator.valid()) continue;
        const std::uint32_t index = about.group[communicator.value];
        std::uint32_t all = 0;
        for (const std::uint32_t one : job_.classes.groups[index].classes) all += job_.classes.classes[one].count;
        why += fmt::format("{}a collective of communicator {} waits for {} of {} ranks", why.empty() ? "" : "; ",
                           request_.programs[0]->communicators[communicator.value].name,
                           all - rounds_[index].arrived_ranks, all);
      }
      job_.deadlock += (why.empty() ? "never goes on" : why) + "\n";
    }
  }

  const JobRequest& request_;
  Job job_;
  std::deque<Rank> ranks_;              // by class
  std::vector<Round> rounds_;           // by group of classes
  std::vector<bool> keep_;              // by class: its meetings are wanted
  std::vector<std::uint32_t> pending_;  // by class: meetings without an answer
  std::deque<std::uint32_t> runnable_;
};

}  // namespace

Job simulate_job(const MachineProfile& machine, const JobRequest& request) {
  return JobSimulation(machine, request).run();
}

}  // namespace foreshard::sim
