// Steps that are not played because they are as the step before them: the same, to the nanosecond, as if they were.
#include "sim/ranks/step_period.hpp"

#include <random>

#include "sim/ranks/job.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr unsigned kPrograms = 120;
constexpr std::size_t kSteps = 6, kLast = 4;

/// Steps of a few layers, which begin behind the step before: each gathers before its kernels and scatters behind them,
/// on streams of their own, and a last kernel waits for all of it. `odd`: this step has one more nanosecond of work.
HostProgram layered_steps(unsigned seed, std::uint32_t ranks, std::size_t odd = kSteps) {
  using Kind = HostProgram::Action::Kind;
  HostProgram out;
  out.communicators.push_back({.name = "world", .ranks = ranks});
  const StreamId compute = out.table.add_stream(), gather = out.table.add_stream(), scatter = out.table.add_stream();
  const CommunicatorId world = out.table.add_communicator();
  const auto submit = [&](EngineOp op) {
    out.actions.push_back({Kind::issue, 0, 0});
    return out.table.submit(op);
  };
  const auto wait = [&](StreamId waiting, StreamId stream) { out.table.wait(waiting, out.table.record(stream)); };
  for (std::size_t step = 0; step < kSteps; ++step) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
    const auto work = [&](unsigned most) { out.actions.push_back({Kind::work, 0, below(most)}); };
    const auto collective = [&](StreamId stream) {
      RunningOp what;
      what.role = RunningOp::Role::collective;
      what.collective.sms = static_cast<double>(4 + below(30));
      what.collective.traffic = 0.2;
      work(3'000);
      EngineOp op;
      op.stream = stream;
      op.communicator = world;
      op.running_op = what;
      op.work = {below(200'000)};
      op.lengthens_gaps = stream == gather;
      submit(op);
    };
    wait(gather, compute);
    for (std::int64_t layers = 2 + below(6); layers > 0; --layers) {
      collective(gather);
      wait(compute, gather);
      for (std::int64_t kernels = below(12); kernels > 0; --kernels) {
        RunningOp what;
        what.kernel.sms = 0.8;
        what.kernel.memory = 0.3;
        work(8'000);
        submit({compute, {}, what, {below(60'000)}});
      }
      if (below(3) == 0) out.actions.push_back({Kind::wait_event, out.table.record(gather).value, 0});
      wait(scatter, compute);
      collective(scatter);
    }
    if (below(4) == 0) out.actions.push_back({Kind::wait_all, 0, 0});
    wait(compute, scatter);
    out.step_ends.push_back(submit({compute, {}, {}, {20'000 + (step == odd ? 1 : 0)}}));
  }
  return out;
}

JobRequest unlike_ranks(const HostProgram& program, unsigned seed, std::uint32_t ranks) {
  JobRequest request;
  request.programs = {&program};
  request.ranks.resize(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    request.ranks[rank].kernels = 1 + 0.001 * static_cast<double>(mixed(seed, rank) % 30);
    request.ranks[rank].host = 1 + 0.1 * static_cast<double>(mixed(rank, seed) % 3);
  }
  request.last_step = kLast;
  return request;
}

MachineProfile machine_with_queue(unsigned seed) {
  MachineProfile machine = *builtin_profile("h200");
  machine.launch_queue = std::array<std::uint32_t, 3>{60, 7, 20}[seed % 3];
  return machine;
}

TEST_CASE("steps that are not played are as if they were") {
  unsigned left_out = 0;
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    INFO("seed " << seed);
    const std::uint32_t ranks = 1 + seed % 5;
    const MachineProfile machine = machine_with_queue(seed);
    const HostProgram program = layered_steps(seed, ranks);
    JobRequest request = unlike_ranks(program, seed, ranks);
    const Job is = simulate_job(machine, request);
    request.repeat_steps = false;
    const Job played = simulate_job(machine, request);
    CHECK_FALSE(played.repeated);
    left_out += is.repeated.has_value();
    for (std::size_t i = 0; i < is.ranks.size(); ++i)
      for (std::size_t step = 0; step <= kLast; ++step) {
        INFO("rank " << i << ", step " << step);
        REQUIRE(is.ranks[i].step_ends[step] == played.ranks[i].step_ends[step]);
        REQUIRE(is.ranks[i].idle_for_ranks[step] == played.ranks[i].idle_for_ranks[step]);
        REQUIRE(is.ranks[i].awaited_in[step] == played.ranks[i].awaited_in[step]);
      }
  }
  CHECK(left_out > kPrograms / 2);
}

TEST_CASE("what differs is played") {
  constexpr unsigned kSeed = 3;
  const MachineProfile machine = machine_with_queue(0);
  const HostProgram even = layered_steps(kSeed, 2);
  const auto repeated = [&](const JobRequest& request) { return simulate_job(machine, request).repeated.has_value(); };
  JobRequest request = unlike_ranks(even, kSeed, 2);
  REQUIRE(repeated(request));
  SECTION("a step that asks for more") {
    for (const std::size_t odd : {3UL, 4UL, 5UL}) {
      const HostProgram program = layered_steps(kSeed, 2, odd);
      CHECK_FALSE(repeated(unlike_ranks(program, kSeed, 2)));
    }
  }
  SECTION("chance for each kernel or piece of host work") {
    request.jitter.kernels = {Spread::Kind::normal, 0.01};
    CHECK_FALSE(repeated(request));
    request.jitter = {};
    request.jitter.host = {Spread::Kind::normal, 0.01};
    CHECK_FALSE(repeated(request));
  }
  SECTION("a job that is played to its end, or whose meetings are wanted") {
    request.keep_meetings = {0};
    CHECK_FALSE(repeated(request));
    request.keep_meetings.clear();
    request.last_step.reset();
    CHECK_FALSE(repeated(request));
  }
}

TEST_CASE("a program's steps are alike or not") {
  const HostProgram program = layered_steps(5, 2, 3);
  const HostSchedule schedule(program, 1);
  const StepPeriod period(program, schedule);
  constexpr std::size_t kStep = StepPeriod::kCuts;
  REQUIRE(period.cuts().size() == kSteps * kStep);
  for (const std::size_t cut : {std::size_t{0}, kStep, kStep + 5}) CHECK(period.alike(cut, 1));
  CHECK_FALSE(period.alike(0, 2));  // the third step's last kernel is not as the fourth's
  CHECK_FALSE(period.alike(2 * kStep, 2));
  CHECK_FALSE(period.alike(3 * kStep + 1, 3));
  CHECK(period.alike(4 * kStep, 4));
  CHECK_FALSE(period.alike(4 * kStep, 5));  // no step is behind it
  CHECK(period.first_alike(1) == OpId{program.step_ends[0].value + 1});
  CHECK(period.first_alike(2) == OpId{program.step_ends[2].value + 1});
  CHECK_FALSE(period.first_alike(kSteps - 1));
}

}  // namespace
}  // namespace foreshard::sim
