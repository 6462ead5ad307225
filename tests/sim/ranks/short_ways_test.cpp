// Engine's short ways against its long one over random programs: every kernel and every collective, to the nanosecond.
#include <array>
#include <random>

#include "sim/ranks/job.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr unsigned kSeeds = 150;
constexpr std::uint32_t kOps = 250;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }  // distributions differ by library
  bool chance(unsigned percent) { return below(100) < percent; }
  double share() { return below(1000) / 1000.0; }

 private:
  std::mt19937 random_;
};

RunningOp kernel(Dice& dice, RunningOp::Role role) {
  RunningOp out;
  out.role = role;
  KernelDemand& demand = out.kernel;
  demand.sms = dice.share();
  demand.memory = dice.share();
  demand.pressure = dice.share();
  if (dice.chance(30)) demand.clock = 0.9 + dice.share() / 10;
  if (dice.chance(50)) {
    demand.tiles = 1 + dice.below(1000);
    demand.shaped = dice.chance(70);
    if (dice.chance(50)) demand.held = 1 + dice.share();  // above ContentionSpec::one_wave: all are late or none
  } else if (dice.chance(30)) {
    demand.ring_slowdown = 1 + dice.share();
  }
  demand.persistent = role == RunningOp::Role::main_kernel && dice.chance(15);
  return out;
}

RunningOp collective(Dice& dice) {
  RunningOp out;
  out.role = RunningOp::Role::collective;
  CollectiveDemand& demand = out.collective;
  if (dice.chance(70)) demand.sms = 4 + dice.below(40);
  demand.link = dice.share();
  demand.traffic = dice.share() / 2;
  demand.latency = dice.share();
  return out;
}

/// One world of `ranks`, or of a mesh its shards of two and replicas; every op of the compute stream ends a step, so
/// that the job tells when it ended.
HostProgram program(unsigned seed, std::uint32_t ranks, bool mesh = false) {
  Dice dice(seed);
  HostProgram out;
  if (mesh) {
    std::vector<std::uint32_t> replicas;
    for (std::uint32_t rank = 0; rank < ranks; rank += 2) replicas.push_back(rank);
    out.communicators.push_back({.name = "shard", .ranks = 2, .members = {0, 1}});
    out.communicators.push_back({.name = "replicate", .ranks = ranks / 2, .members = replicas});
  } else {
    out.communicators.push_back({.name = "world", .ranks = ranks});
  }
  OpTable& table = out.table;
  std::array<StreamId, 4> streams{};
  for (StreamId& stream : streams) stream = table.add_stream();
  std::vector<CommunicatorId> communicators;
  for (std::size_t i = 0; i < out.communicators.size(); ++i) communicators.push_back(table.add_communicator());
  std::vector<RunningOp> kernels, collectives;  // few, so that pairs come again
  for (int i = 0; i < 5; ++i) kernels.push_back(kernel(dice, RunningOp::Role::main_kernel));
  kernels.push_back({});  // shares nothing: a memset
  for (int i = 0; i < 3; ++i) collectives.push_back(collective(dice));
  using Kind = HostProgram::Action::Kind;
  while (table.ops().size() < kOps) {
    for (unsigned works = dice.below(4); works > 0; --works) out.actions.push_back({Kind::work, 0, dice.below(4000)});
    const unsigned what = dice.below(100);
    if (what < 15) {
      const EventId event = table.record(streams[dice.below(4)]);
      if (what < 13) table.wait(streams[dice.below(4)], event);
      if (what == 14) out.actions.push_back({Kind::wait_event, event.value, 0});
      continue;
    }
    if (what == 15 && dice.chance(30)) out.actions.push_back({Kind::wait_all, 0, 0});
    EngineOp op;
    if (what < 75) {
      op.running_op = kernels[dice.below(6)];
      op.work = {dice.below(40'000)};
      op.nothing = dice.chance(2);
    } else if (what < 90) {
      op.stream = streams[dice.chance(5) ? 0 : 1 + dice.below(2)];
      op.communicator = communicators[mesh ? dice.below(2) : 0];
      op.running_op = collectives[dice.below(3)];
      op.work = {dice.below(300'000)};
      op.lengthens_gaps = dice.chance(50);
    } else {
      op.stream = streams[3];
      op.work = {dice.below(20'000)};
      op.is_copy = dice.chance(50);
      if (!op.is_copy) op.running_op = kernel(dice, RunningOp::Role::side_kernel);
    }
    if (!op.stream.valid()) op.stream = kComputeStream;
    const OpId id = table.submit(op);
    if (op.stream == kComputeStream) out.step_ends.push_back(id);
    out.actions.push_back({Kind::issue, 0, 0});
  }
  return out;
}

MachineProfile machine_of(unsigned seed) {
  MachineProfile machine = *builtin_profile("h200");
  machine.launch_queue = std::array<std::uint32_t, 3>{1024, 7, 0}[seed % 3];
  return machine;
}

std::vector<OpTiming> played(const MachineProfile& machine, const HostProgram& program, const EngineOptions& options,
                             unsigned seed, bool curious) {
  Dice dice(seed);
  Engine engine(machine, program.table, options);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < program.table.ops().size(); ++i) {
    at += dice.below(dice.chance(5) ? 400'000 : 20'000);
    if (curious) engine.advance({at});
    engine.issue({at});
  }
  while (engine.advance_once()) {
  }
  REQUIRE(engine.unfinished() == 0);
  return {engine.timings().begin(), engine.timings().end()};
}

void check_same(const std::vector<OpTiming>& a, const std::vector<OpTiming>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("op " << i);
    REQUIRE(a[i].start == b[i].start);
    REQUIRE(a[i].end == b[i].end);
  }
}

TEST_CASE("one rank's ops begin and end the same by the short ways and by the long one") {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed);
    const MachineProfile machine = machine_of(seed);
    const HostProgram random = program(seed, 1);
    RateTable rates(machine, random.table);
    EngineOptions options;
    options.kernel_work = seed % 2 == 0 ? 1 : 1.07;
    if (seed % 4 == 3) options.kernel_draws = {{Spread::Kind::lognormal, 0.1}, seed};
    options.short_ways = false;
    const std::vector<OpTiming> is = played(machine, random, options, seed, false);
    options.short_ways = true;
    check_same(played(machine, random, options, seed, false), is);
    options.rates = &rates;
    check_same(played(machine, random, options, seed, false), is);
    check_same(played(machine, random, options, seed, true), is);
  }
}

TEST_CASE("ranks that wait for one another do so the same by the short ways and by the long one") {
  const bool mesh = GENERATE(false, true);
  std::size_t waits = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed << (mesh ? ", a mesh" : ""));
    const std::uint32_t ranks = mesh ? 4 + 2 * (seed % 3) : 1 + seed % 6;
    const MachineProfile machine = machine_of(seed);
    const HostProgram random = program(seed, ranks, mesh);
    JobRequest request;
    request.programs = {&random};
    request.ranks.resize(ranks);
    if (seed % 2 == 1) request.jitter = {{Spread::Kind::lognormal, 0.1}, {Spread::Kind::normal, 0.2}, {}, {}};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      request.keep_meetings.push_back(rank);
      RankTraits& traits = request.ranks[rank];
      traits.draws = mixed(seed, rank);
      traits.kernels = 1 + 0.01 * static_cast<double>(mixed(seed, rank) % 30);
      traits.host = 1 + 0.1 * static_cast<double>(mixed(rank, seed) % 3);  // a third as the job's schedule has it
    }
    const Job is = simulate_job(machine, request);
    request.short_ways = false;
    const Job by_long = simulate_job(machine, request);
    REQUIRE(is.stuck.empty());
    REQUIRE(is.ranks.size() == by_long.ranks.size());
    for (std::size_t i = 0; i < is.ranks.size(); ++i) {
      INFO("rank " << i);
      REQUIRE((is.ranks[i].step_ends == by_long.ranks[i].step_ends));  // not taken apart: it would print them
      REQUIRE(is.ranks[i].waited == by_long.ranks[i].waited);
      REQUIRE((is.ranks[i].awaited_in == by_long.ranks[i].awaited_in));          // not taken apart: it would print them
      REQUIRE((is.ranks[i].idle_for_ranks == by_long.ranks[i].idle_for_ranks));  // not taken apart: it would print them
      REQUIRE(is.ranks[i].step_ends.size() == random.step_ends.size());
      waits += is.ranks[i].waited.count > 0;
      const auto& met = is.ranks[i].meetings;
      REQUIRE(met.size() == by_long.ranks[i].meetings.size());
      for (std::size_t c = 0; c < met.size(); ++c)
        for (std::size_t m = 0; m < met[c].size(); ++m) {
          REQUIRE(met[c][m].all_there == by_long.ranks[i].meetings[c][m].all_there);
          REQUIRE(met[c][m].all_done == by_long.ranks[i].meetings[c][m].all_done);
        }
    }
  }
  CHECK(waits > kSeeds);  // what is compared are jobs in which ranks wait
}

}  // namespace
}  // namespace foreshard::sim
