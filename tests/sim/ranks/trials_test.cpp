// What chance does to a job: equal seeds give equal times, threads change nothing, and the mean is what is expected.
#include "sim/ranks/trials.hpp"

#include <cmath>
#include <numeric>

#include "sim/machine/profile.hpp"
#include "sim/ranks/trials_part.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr std::int64_t kKernel = 100'000;
constexpr std::int64_t kKernels = 40;

/// Steps of kernels one behind the other; behind every tenth `ranks` of them meet, and the next ones wait for that.
struct Logged {
  DeviceLog log;
  std::vector<OpId> ends;
};

Logged log_of_kernels(std::uint32_t ranks, std::uint32_t steps, std::int64_t kernel) {
  DeviceLog log;
  log.call(DeviceLog::Kind::add_stream);
  if (ranks > 1) {
    CommunicatorOptions options{"shard", ranks, ranks, {}};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) options.members.push_back(rank);
    log.add_communicator(options);
  }
  std::vector<OpId> ends;
  std::uint32_t ops = 0;
  std::int64_t events = 0;
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::int64_t i = 0; i < kKernels; ++i) {
      log.call(DeviceLog::Kind::host_work, 0, 5'000);
      log.submit({.stream = kComputeStream, .communicator = {}, .running_op = {}, .work = {kernel}}, DeviceLog::kOnce);
      ++ops;
      ends.resize(step + 1);
      ends[step] = OpId{ops - 1};
      if (ranks < 2 || i % 10 != 9) continue;
      log.call(DeviceLog::Kind::record, 0);
      log.call(DeviceLog::Kind::wait, 1, events++);
      log.submit({.stream = StreamId{1},
                  .communicator = CommunicatorId{0},
                  .running_op = {RunningOp::Role::collective, {}, {}},
                  .work = {kKernel}},
                 DeviceLog::kOnce);
      ++ops;
      log.call(DeviceLog::Kind::record, 1);
      log.call(DeviceLog::Kind::wait, 0, events++);
    }
  }
  return {std::move(log), std::move(ends)};
}

HostProgram steps_of_kernels(std::uint32_t ranks, std::uint32_t steps) {
  const Logged logged = log_of_kernels(ranks, steps, kKernel);
  return host_program(logged.log, logged.ends);
}

JobRequest job_of(const HostProgram& program, std::uint32_t ranks) {
  JobRequest request;
  request.programs = {&program};
  request.ranks.resize(ranks);
  return request;
}

std::vector<Trial> play(const HostProgram& program, std::uint32_t ranks, const TrialsRequest& request) {
  return simulate_trials(*builtin_profile("h200"), job_of(program, ranks), {1, 2}, request);
}

double mean_step(const std::vector<Trial>& trials) {
  double sum = 0;
  for (const Trial& trial : trials) sum += static_cast<double>(trial.step.count);
  return sum / static_cast<double>(trials.size());
}

TEST_CASE("the mean of many trials of one lone rank is the step without jitter, within its standard error") {
  constexpr std::uint32_t kTrials = 2000;
  const HostProgram program = steps_of_kernels(1, 3);
  const Job even = simulate_job(*builtin_profile("h200"), job_of(program, 1));
  const auto expected = static_cast<double>((even.ranks[0].step_ends[2] - even.ranks[0].step_ends[1]).count);
  for (const Spread spread : {Spread{Spread::Kind::normal, 0.1}, Spread{Spread::Kind::lognormal, 0.3}}) {
    const auto trials = play(program, 1, {{.kernels = spread, .host = {}, .gpus = {}, .hosts = {}}, 11, kTrials});
    const double deviation = spread.deviation * static_cast<double>(kKernel) * std::sqrt(kKernels);
    CHECK(std::abs(mean_step(trials) - expected) < 3 * deviation / std::sqrt(kTrials));
    double squares = 0;
    for (const Trial& trial : trials) squares += std::pow(static_cast<double>(trial.step.count) - expected, 2);
    CHECK(std::abs(std::sqrt(squares / kTrials) / deviation - 1) < 0.1);
    CHECK(trials[0].last == kNobody);
    CHECK(trials[0].waiting.count == 0);
  }
  // A clock: all of a trial's kernels by one factor.
  const auto clocks =
      play(program, 1, {{.kernels = {}, .host = {}, .gpus = {Spread::Kind::normal, 0.05}, .hosts = {}}, 11, kTrials});
  CHECK(std::abs(mean_step(clocks) / expected - 1) < 3 * 0.05 / std::sqrt(kTrials));
}

TEST_CASE("trials in parts are the trials") {
  const HostProgram program = steps_of_kernels(4, 3);
  TrialsRequest request{{.kernels = {Spread::Kind::normal, 0.05}, .host = {}, .gpus = {}, .hosts = {}}, 5, 11};
  const std::vector<Trial> all = play(program, 4, request);
  std::vector<Trial> joined(all.size());
  for (std::uint32_t number = 0; number < 3; ++number) {
    request.part = {number, 3};
    const auto read = parse_trials_part(trials_part_text(request.part, "xxh3:1", play(program, 4, request)), "part");
    REQUIRE(read);
    CHECK(read->fingerprint == "xxh3:1");
    for (std::size_t i = 0; i < joined.size(); ++i)
      if (read->found[i]) joined[i] = *read->found[i];
  }
  CHECK((joined == all));
  request.part = {};
  request.known = joined;
  CHECK((play(program, 4, request) == all));
  CHECK_FALSE(parse_trials_part("{}", "part"));
}

TEST_CASE("seeds reproduce, others differ, and threads change nothing") {
  const HostProgram program = steps_of_kernels(4, 3);
  TrialsRequest request{{.kernels = {Spread::Kind::lognormal, 0.05},
                         .host = {Spread::Kind::lognormal, 0.2},
                         .gpus = {Spread::Kind::normal, 0.02},
                         .hosts = {Spread::Kind::normal, 0.02}},
                        7,
                        24};
  const auto once = play(program, 4, request);
  CHECK(once == play(program, 4, request));
  request.threads = 3;
  CHECK(once == play(program, 4, request));
  request.seed = 8;
  CHECK_FALSE(once == play(program, 4, request));
}

TEST_CASE("ranks that wait for one another take longer than one alone, and each is the last at times") {
  const HostProgram program = steps_of_kernels(4, 3);
  const Job even = simulate_job(*builtin_profile("h200"), job_of(program, 4));
  const Nanoseconds alike = even.ranks[0].step_ends[2] - even.ranks[0].step_ends[1];
  const auto trials =
      play(program, 4, {{.kernels = {}, .host = {}, .gpus = {Spread::Kind::normal, 0.05}, .hosts = {}}, 1, 400});
  CHECK(mean_step(trials) > 1.02 * static_cast<double>(alike.count));  // the slowest of four: 1.03 deviations
  std::vector<int> last(4);
  for (const Trial& trial : trials) {
    REQUIRE(trial.last < 4);
    ++last[trial.last];
    CHECK(trial.waiting.count > 0);
    CHECK(trial.awaited.all.count > 0);
    CHECK(trial.awaited.all == trial.awaited.of(Resource::gpu));
    // Nothing overlaps: what all others wait for it is idle time of theirs.
    CHECK(trial.awaited.all.count <= 4 * trial.waiting.count + 4);
  }
  for (const int times : last) CHECK(std::abs(times - 100) < 40);
}

TEST_CASE("with equal draws ranks are folded, and folding changes nothing, to the nanosecond") {
  const HostProgram program = steps_of_kernels(8, 3);
  JobRequest request = job_of(program, 8);
  request.jitter = {{Spread::Kind::lognormal, 0.1}, {Spread::Kind::lognormal, 0.5}, {}, {}};
  for (std::uint32_t rank = 0; rank < 8; ++rank) request.ranks[rank].draws = rank < 5 ? 1 : rank;
  const Job folded = simulate_job(*builtin_profile("h200"), request);
  request.fold = false;
  const Job unfolded = simulate_job(*builtin_profile("h200"), request);
  CHECK(folded.classes.classes.size() == 4);
  CHECK(unfolded.classes.classes.size() == 8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    CHECK(folded.of(rank).step_ends == unfolded.of(rank).step_ends);
    CHECK(folded.of(rank).waited == unfolded.of(rank).waited);
    CHECK(folded.of(rank).idle_for_ranks == unfolded.of(rank).idle_for_ranks);
  }
  CHECK(folded.of(0).step_ends != folded.of(7).step_ends);
}

TEST_CASE("of ranks that draw what they run, each step takes as long as the longest drawn for it") {
  constexpr std::uint32_t kRanks = 3;
  const HostProgram program = steps_of_kernels(kRanks, 4);
  StepPrograms drawn;
  for (const std::int64_t kernel : {kKernel, 2 * kKernel}) {
    const Logged logged = log_of_kernels(kRanks, 4, kernel);
    drawn.logs.emplace_back(logged.log, logged.ends);
    drawn.sizes.push_back(static_cast<double>(kernel));
  }
  REQUIRE(drawn.logs[0].same_form(drawn.logs[1]));
  REQUIRE(drawn.logs[0].steps() == 4);
  TrialsRequest request;
  request.trials = 40;
  const auto trials = [&] {
    return simulate_trials(*builtin_profile("h200"), job_of(program, kRanks), {1, 2}, request, &drawn);
  };
  drawn.draw = [](std::uint64_t, std::size_t) { return std::size_t{0}; };
  const Job even = simulate_job(*builtin_profile("h200"), job_of(program, kRanks));
  const Nanoseconds shorter = even.last_end(2) - even.last_end(1);
  for (const Trial& trial : trials()) {
    CHECK(trial.step == shorter);  // to the nanosecond: of equal steps the program is the job's own
    CHECK(trial.waiting.count == 0);
  }
  drawn.draw = [](std::uint64_t, std::size_t step) { return step == 2 ? std::size_t{1} : 0; };
  const Nanoseconds longer = trials()[0].step;
  CHECK(longer - shorter == Nanoseconds{kKernels * kKernel});
  CHECK(trials()[0].drawn == 2 * kKernel);
  // Of three ranks one in four draws the longer: 27 of 64 trials have none.
  drawn.draw = [](std::uint64_t key, std::size_t step) { return mixed(key, step) % 4 == 0 ? std::size_t{1} : 0; };
  int with = 0;
  for (const Trial& trial : trials()) {
    const auto ranks = std::lround((trial.drawn / kKernel - 1) * kRanks);  // that drew it
    CHECK(trial.step == (ranks > 0 ? longer : shorter));
    // The others wait three quarters of their lead in the step, and a quarter that of the step before, whose last
    // collective ends behind it.
    const std::int64_t own = ranks == 0 ? 0 : 3 * kKernels * kKernel * (kRanks - ranks) / (4 * kRanks);
    CHECK(trial.waiting.count >= own);
    CHECK(trial.waiting.count <= own + kKernels * kKernel * (kRanks - 1) / (4 * kRanks) + 1);
    with += ranks > 0 ? 1 : 0;
  }
  CHECK(std::abs(with - 23) < 9);
  const std::vector<Trial> one_thread = trials();
  request.threads = 3;
  CHECK((trials() == one_thread));
  request.seed = 1;
  CHECK_FALSE((trials() == one_thread));
}

TEST_CASE("steps of other collectives or events are of another form") {
  const auto log = [](std::uint32_t ranks, std::uint32_t steps) {
    const Logged logged = log_of_kernels(ranks, steps, kKernel);
    return StepLog(logged.log, logged.ends);
  };
  CHECK(log(4, 3).same_form(log(4, 3)));
  CHECK_FALSE(log(4, 3).same_form(log(1, 3)));
  CHECK_FALSE(log(4, 3).same_form(log(4, 2)));
}

TEST_CASE("engines of many ranks are not all there at once") {
  CHECK(trial_threads(8, 16) == 16);
  CHECK(trial_threads(16'384, 128) == 6);
  CHECK(trial_threads(1'000'000, 128) == 1);
}

}  // namespace
}  // namespace foreshard::sim
