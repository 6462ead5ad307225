#include "sim/ranks/trials.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "core/base/check.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::sim {
namespace {

std::vector<RankTraits> drawn(const std::vector<RankTraits>& ranks, const TrialsRequest& request, std::size_t trial) {
  std::vector<RankTraits> out = ranks;
  const std::uint64_t of_trial = mixed(request.seed, trial);
  for (std::uint32_t rank = 0; rank < out.size(); ++rank) {
    if (request.jitter == Jitter{}) continue;  // ranks of equal programs stay equal
    out[rank].draws = mixed(of_trial, rank);
    out[rank].kernels *= Draws{request.jitter.gpus, out[rank].draws}.factor(static_cast<std::uint64_t>(DrawsFor::gpu));
    out[rank].host *= Draws{request.jitter.hosts, out[rank].draws}.factor(static_cast<std::uint64_t>(DrawsFor::host));
  }
  return out;
}

/// The programs of one trial, and whose they are.
class DrawnJob {
 public:
  /// All must outlive it; `job` gets programs of this.
  DrawnJob(const StepPrograms& programs, std::uint64_t of_trial, const TrialSteps& looked_at, JobRequest& job) {
    const std::size_t steps = programs.logs[0].steps();
    std::map<std::vector<std::size_t>, std::uint32_t> known;
    job.programs.clear();
    for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
      const std::uint64_t key = mixed(mixed(of_trial, rank), static_cast<std::uint64_t>(DrawsFor::lengths));
      std::vector<std::size_t> drawn;
      for (std::size_t step = 0; step < steps; ++step) drawn.push_back(programs.draw(key, step));
      for (std::size_t step = looked_at.begin + 1; step <= looked_at.end; ++step) sum_ += programs.sizes[drawn[step]];
      const auto [at, is_new] = known.try_emplace(drawn, static_cast<std::uint32_t>(programs_.size()));
      if (is_new) {
        std::vector<const StepLog*> logs;
        for (const std::size_t log : drawn) logs.push_back(&programs.logs[log]);
        job.programs.push_back(&programs_.emplace_back(program_of_steps(logs)));
      }
      job.ranks[rank].program = at->second;
    }
    mean_ = sum_ / static_cast<double>(job.ranks.size() * (looked_at.end - looked_at.begin));
  }
  /// Trial::drawn.
  [[nodiscard]] double mean() const { return mean_; }

 private:
  std::deque<HostProgram> programs_;
  double sum_ = 0;
  double mean_ = 0;
};

Trial trial_of(const Job& job, const TrialSteps& steps) {
  FORESHARD_CHECK(job.stuck.empty(), "a trial in which every rank lives ends");
  const auto count = static_cast<std::int64_t>(steps.end - steps.begin);
  Trial out;
  out.step = {(job.last_end(steps.end) - job.last_end(steps.begin)).count / count};
  std::int64_t waiting = 0;
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    const JobRank& rank = job.ranks[i];
    waiting += (rank.idle_for_ranks[steps.end] - rank.idle_for_ranks[steps.begin]).count *
               std::int64_t{job.classes.classes[i].count};
    Awaited awaited;
    for (std::size_t step = steps.begin + 1; step <= steps.end; ++step) awaited += rank.awaited_in[step];
    if (awaited.all <= out.awaited.all) continue;
    out.awaited = awaited;
    out.last = job.classes.classes[i].first;
  }
  out.awaited.all.count /= count;
  for (Nanoseconds& part : out.awaited.by) part.count /= count;
  out.waiting = {waiting / count / static_cast<std::int64_t>(job.classes.of_rank.size())};
  return out;
}

}  // namespace

std::vector<Trial> simulate_trials(const MachineProfile& machine, const JobRequest& job, const TrialSteps& steps,
                                   const TrialsRequest& request, const StepPrograms* drawn_programs) {
  if (!request.known.empty()) return request.known;
  std::vector<Trial> out(request.trials);
  const auto ranks = static_cast<std::uint32_t>(job.ranks.size());
  const unsigned beside = trial_threads(ranks, std::min(request.threads, request.trials));
  const auto work = [&](std::size_t n) {
    const std::size_t trial = request.part.number + n * request.part.of;
    JobRequest one = job;
    one.threads = std::max(request.threads / beside, 1u);
    one.last_step = steps.end;
    one.jitter = request.jitter;
    one.tells_delays = drawn_programs == nullptr;
    one.ranks = drawn(job.ranks, request, trial);
    std::optional<DrawnJob> drawn_job;
    if (drawn_programs != nullptr) drawn_job.emplace(*drawn_programs, mixed(request.seed, trial), steps, one);
    if (drawn_job) one.repeat_steps = false;  // none is like the one before
    out[trial] = trial_of(simulate_job(machine, one), steps);
    if (drawn_job) out[trial].drawn = drawn_job->mean();
  };
  for_each(request.part.size(out.size()), beside, work, request.progress);
  return out;
}

unsigned trial_threads(std::uint32_t ranks, unsigned threads) {
  constexpr std::uint32_t kRanksAtOnce = 100'000;
  return std::clamp(kRanksAtOnce / std::max(ranks, 1u), 1u, std::max(threads, 1u));
}

}  // namespace foreshard::sim
