// Many ranks: equal ones are one rank's simulation, a slow one makes the others wait, and folding changes nothing.
#include "sim/ranks/job.hpp"

#include <cmath>
#include <random>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/simulate.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr double kHostScale = 0.8;

struct Played {
  Simulation simulation;
  HostProgram program;
};

Played play(const Settings& settings) {
  const MachineProfile machine = *builtin_profile("h200");
  const Workload workload = generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
  DeviceLog log;
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = 4, .record = false, .warm = true};
  request.options.host_scale = kHostScale;
  request.options.log = &log;
  auto simulation = simulate(workload, workload.settings, machine, request, ignored);
  REQUIRE(simulation);
  std::vector<OpId> ends;
  for (const StepOutcome::Step& step : simulation->outcome.steps) ends.push_back(*step.last_compute_op);
  return {std::move(*simulation), host_program(log, ends)};
}

Settings mesh(std::uint32_t gpus, std::uint32_t nodes, std::uint32_t replicate) {
  Settings settings;
  settings.gpus = gpus;
  settings.nodes = nodes;
  settings.replicate = replicate;
  settings.batch = 2;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  return settings;
}

Job job(const HostProgram& program, const std::vector<RankTraits>& ranks, bool fold = true,
        double host_scale = kHostScale) {
  JobRequest request;
  request.programs = {&program};
  request.ranks = ranks;
  request.host_scale = host_scale;
  request.fold = fold;
  return simulate_job(*builtin_profile("h200"), request);
}

bool equal(const Job& a, const Job& b) {
  if (a.classes.of_rank.size() != b.classes.of_rank.size()) return false;
  for (std::uint32_t rank = 0; rank < a.classes.of_rank.size(); ++rank)
    if (a.of(rank).step_ends != b.of(rank).step_ends || a.of(rank).waited != b.of(rank).waited) return false;
  return true;
}

TEST_CASE("equal ranks end their steps when one rank's simulation does, to the nanosecond") {
  for (const Settings& settings : {mesh(4, 1, 1), mesh(8, 2, 1), mesh(8, 4, 4)}) {
    const Played played = play(settings);
    const Job all = job(played.program, std::vector<RankTraits>(settings.world()));
    CHECK(all.stuck.empty());
    CHECK(all.classes.classes.size() == 1);
    CHECK(all.ranks[0].step_ends == played.simulation.step_end);
    CHECK(all.ranks[0].waited.count == 0);
  }
}

TEST_CASE("folding changes nothing, whatever tells ranks apart") {
  std::mt19937 random(7);
  const Played plain = play(mesh(4, 2, 1));
  const Played hybrid = play(mesh(4, 2, 4));
  for (int i = 0; i < 12; ++i) {
    std::vector<RankTraits> ranks(8);
    for (auto n = random() % 4; n > 0; --n) ranks[random() % 8].kernels = 1 + static_cast<double>(random() % 3) / 4;
    for (auto n = random() % 3; n > 0; --n) ranks[random() % 8].host = 1 + static_cast<double>(random() % 3);
    for (const Played* played : {&plain, &hybrid}) {
      const Job folded = job(played->program, ranks);
      const Job unfolded = job(played->program, ranks, false);
      CHECK(folded.stuck.empty());
      CHECK(unfolded.classes.classes.size() == 8);
      CHECK(equal(folded, unfolded));
    }
  }
}

TEST_CASE("the others wait for a slow rank, and the step is about as long as if all were slow") {
  constexpr double kFastHost = 0.1;  // the GPU sets the pace
  const Played played = play(mesh(8, 1, 1));
  std::vector<RankTraits> ranks(8);
  const Job even = job(played.program, ranks, true, kFastHost);
  ranks[5].kernels = 1.5;
  const Job late = job(played.program, ranks, true, kFastHost);
  REQUIRE(late.classes.classes.size() == 2);
  const auto step = [](const JobRank& rank) { return (rank.step_ends[2] - rank.step_ends[1]).count; };
  CHECK(step(late.of(0)) > step(even.of(0)));
  CHECK(step(late.of(0)) == step(late.of(5)));
  CHECK(late.of(0).waited > late.of(5).waited);
  CHECK(late.of(5).awaited.all > late.of(0).awaited.all);
  const Job all_slow = job(played.program, std::vector<RankTraits>(8, ranks[5]), true, kFastHost);
  const auto all = static_cast<double>(step(all_slow.of(5)));
  CHECK(std::abs(static_cast<double>(step(late.of(5))) / all - 1) < 0.01);
}

TEST_CASE("a slow rank of one replica makes the other replicas wait only where they meet") {
  const Played played = play(mesh(4, 2, 2));
  std::vector<RankTraits> ranks(8);
  ranks[1].kernels = 2;
  const Job late = job(played.program, ranks);
  CHECK(late.stuck.empty());
  // Its own shard group waits in every collective, the other replica in its all-reduces alone.
  CHECK(late.of(0).waited.count > 0);
  CHECK(late.of(5).waited.count > 0);
  CHECK(late.of(1).awaited.all > late.of(5).awaited.all);
}

/// Two collectives of 1 ms on one stream, of communicator `first` and then of the other.
HostProgram two_collectives(std::uint32_t first) {
  DeviceLog log;
  log.call(DeviceLog::Kind::add_stream);
  for (const char* name : {"a", "b"}) log.add_communicator({name, 4, 4, {0, 1, 2, 3}});
  for (const std::uint32_t communicator : {first, 1 - first})
    log.submit({.stream = StreamId{1},
                .communicator = CommunicatorId{communicator},
                .running_op = {RunningOp::Role::collective, {}, {}},
                .work = {1'000'000}},
               DeviceLog::kOnce);
  return host_program(log, {});
}

TEST_CASE("ranks that issue collectives in another order wait for one another for ever, and it is said who does") {
  const HostProgram a = two_collectives(0), b = two_collectives(1);
  JobRequest request;
  request.programs = {&a, &b};
  request.ranks.resize(4);
  CHECK(simulate_job(*builtin_profile("h200"), request).stuck.empty());
  request.ranks[3].program = 1;  // ranks 0 to 2 are simulated as one
  const Job job = simulate_job(*builtin_profile("h200"), request);
  REQUIRE(job.stuck.size() == 2);
  REQUIRE(job.stuck[0].waits.size() == 1);
  CHECK(job.stuck[0].waits[0].communicator == CommunicatorId{0});
  CHECK(job.stuck[0].waits[0].of == 4);
  CHECK(job.stuck[0].waits[0].absent == std::vector<std::uint32_t>{3});
  CHECK(job.stuck[0].host == HostStop::program_end);
  CHECK(job.stuck[0].issued == 2);
  REQUIRE(job.stuck[1].waits.size() == 1);
  CHECK(job.stuck[1].waits[0].communicator == CommunicatorId{1});
  CHECK(job.stuck[1].waits[0].absent == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("calls of one communicator meet in their order, and hang where they are not of one kind and size") {
  const auto calls = [](std::vector<CollectiveRequest> requests) {
    DeviceLog log;
    log.call(DeviceLog::Kind::add_stream);
    log.add_communicator({"shard", 4, 4, {0, 1, 2, 3}});
    HostProgram out;
    for (std::size_t i = 0; i < requests.size(); ++i)
      log.submit({.stream = StreamId{1},
                  .communicator = CommunicatorId{0},
                  .running_op = {RunningOp::Role::collective, {}, {}},
                  .work = {1'000'000}},
                 DeviceLog::kOnce);
    out = host_program(log, {});
    out.requests = std::move(requests);
    for (std::uint32_t i = 0; i < out.requests.size(); ++i) out.request_of[0].push_back(i);
    return out;
  };
  const auto request = [](CollectiveKind kind, Bytes bytes) {
    CollectiveRequest out;
    out.kind = kind;
    out.bytes = bytes;
    return out;
  };
  const CollectiveRequest small = request(CollectiveKind::all_gather, 1000);
  const CollectiveRequest large = request(CollectiveKind::all_gather, 2000);
  const CollectiveRequest reduce = request(CollectiveKind::reduce_scatter, 1000);
  const HostProgram others = calls({small, small, reduce});
  const auto stuck = [&](const HostProgram& of_rank_3) {
    JobRequest job;
    job.programs = {&others, &of_rank_3};
    job.ranks.resize(4);
    job.ranks[3].program = 1;
    return simulate_job(*builtin_profile("h200"), job).stuck;
  };
  CHECK(stuck(calls({small, small, reduce})).empty());
  const std::vector<StuckRank> less = stuck(calls({small, small}));  // rank 3 has done all that it had to
  REQUIRE(less.size() == 1);
  CHECK(less[0].waits[0].absent == std::vector<std::uint32_t>{3});
  for (const HostProgram& other : {calls({small, reduce, small}), calls({small, large, reduce})}) {
    const std::vector<StuckRank> waits = stuck(other);
    REQUIRE(waits.size() == 2);
    REQUIRE(waits[0].waits.size() == 1);
    CHECK(waits[0].waits[0].op == OpId{1});
    CHECK(waits[0].waits[0].absent == std::vector<std::uint32_t>{3});
    REQUIRE(waits[1].waits.size() == 1);
    CHECK(waits[1].waits[0].op == OpId{1});
    CHECK(waits[1].waits[0].absent == std::vector<std::uint32_t>{0, 1, 2});
  }
}

TEST_CASE("a rank that dies ends its steps until then, and every rank that meets it stands") {
  const Played played = play(mesh(4, 2, 2));
  std::vector<RankTraits> ranks(8);
  const Job alive = job(played.program, ranks);
  ranks[5].dead_from = 2;
  for (const bool fold : {true, false}) {
    const Job dead = job(played.program, ranks, fold);
    CHECK(dead.of(5).step_ends == std::vector<Nanoseconds>{alive.of(5).step_ends[0], alive.of(5).step_ends[1]});
    CHECK(dead.stuck.size() == dead.classes.classes.size() - 1);
    for (const StuckRank& stuck : dead.stuck) {
      CHECK(dead.classes.classes[stuck.of_class].first != 5);
      CHECK(stuck.steps == 2);
      REQUIRE_FALSE(stuck.waits.empty());
      CHECK(stuck.waits[0].issued > alive.of(5).step_ends[0]);
    }
    // Its own shard group waits for it, the other replica for the shard group's all-reduce.
    const StuckRank& beside = dead.stuck[dead.classes.of_rank[4] - (dead.classes.of_rank[4] > dead.classes.of_rank[5])];
    CHECK(beside.waits[0].absent == std::vector<std::uint32_t>{5});
    CHECK(dead.stuck[0].waits[0].absent ==
          (fold ? std::vector<std::uint32_t>{4, 6, 7} : std::vector<std::uint32_t>{4}));
  }
  ranks[5].dead_from = 0;
  CHECK(job(played.program, ranks).of(5).step_ends.empty());
  ranks[5].dead_from = 5;  // beyond its program
  CHECK(job(played.program, ranks).stuck.empty());
}

TEST_CASE("ranks that run at the same time give what one after another gives") {
  const Played played = play(mesh(8, 32, 4));
  JobRequest request;
  request.programs = {&played.program};
  request.host_scale = kHostScale;
  request.ranks.resize(256);
  for (std::size_t i = 0; i < request.ranks.size(); ++i) request.ranks[i].kernels = 1 + 1e-4 * static_cast<double>(i);
  const MachineProfile machine = *builtin_profile("h200");
  const Job one = simulate_job(machine, request);
  request.threads = 4;
  const Job four = simulate_job(machine, request);
  REQUIRE(one.ranks.size() == 256);
  request.last_step = one.ranks[0].step_ends.size() - 2;
  const Job left = simulate_job(machine, request);
  CHECK(left.stuck.empty());
  std::size_t played_on = 0;
  for (std::size_t i = 0; i < one.ranks.size(); ++i) {
    REQUIRE(four.ranks[i].step_ends == one.ranks[i].step_ends);
    REQUIRE(four.ranks[i].waited == one.ranks[i].waited);
    REQUIRE((four.ranks[i].awaited == one.ranks[i].awaited));
    REQUIRE(four.ranks[i].idle_for_ranks == one.ranks[i].idle_for_ranks);
    played_on += left.ranks[i].step_ends.size() == one.ranks[i].step_ends.size();
    for (std::size_t step = 0; step <= *request.last_step; ++step) {
      REQUIRE(left.ranks[i].step_ends[step] == one.ranks[i].step_ends[step]);
      REQUIRE(left.ranks[i].idle_for_ranks[step] == one.ranks[i].idle_for_ranks[step]);
      REQUIRE(left.ranks[i].awaited_in[step] == one.ranks[i].awaited_in[step]);
    }
  }
  CHECK(played_on < one.ranks.size());  // it was left before the program's end
}

}  // namespace
}  // namespace foreshard::sim
