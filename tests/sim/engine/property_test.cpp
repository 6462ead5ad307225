// Properties of the simulated device over random programs.
#include <random>

#include "tests/sim/engine/sim_fixture.hpp"

namespace foreshard::sim {
namespace {

struct Dependency {
  std::size_t op;
  std::size_t on;
};

struct Played {
  std::vector<OpTiming> timings;
  std::vector<StreamId> streams;
  std::vector<Nanoseconds> work;  // alone
  std::vector<bool> collective;
  std::vector<Dependency> dependencies;
  Nanoseconds host;
};

/// Plays the random program of `seed`. `curious` also asks for events all the time.
Played play(unsigned seed, const MachineProfile& machine, bool curious, const SimOptions& options = {}) {
  std::mt19937 random(seed);
  const auto below = [&random](unsigned n) {
    return static_cast<unsigned>(random() % n);
  };  // not a distribution: those differ by library
  Bench bench(machine, options);
  Played played;
  const std::array<StreamId, 3> streams{kComputeStream, bench.gather, bench.scatter};
  std::vector<std::pair<EventId, std::size_t>> events;  // with the number of the stream's last op, + 1
  std::array<std::size_t, 3> last{};
  std::array<std::vector<std::size_t>, 3> waits;
  for (int i = 0; i < 300; ++i) {
    bench.device.host_work({below(6000)});
    const unsigned s = below(3);
    const std::int64_t work = below(30'000);
    const unsigned what = below(8);
    if (what == 0) {
      events.emplace_back(bench.device.record_event(streams[s]), last[s]);
    } else if (what == 1 && !events.empty()) {
      const auto& [event, on] = events[below(static_cast<unsigned>(events.size()))];
      bench.device.stream_wait_event(streams[s], event);
      if (on > 0) waits[s].push_back(on - 1);
    } else {
      const bool collective = s > 0 && what < 6;
      if (collective && s == 1) bench.all_gather(static_cast<Bytes>(work));
      if (collective && s == 2) bench.reduce_scatter(static_cast<Bytes>(work));
      if (!collective) what == 6 ? bench.gemm(work, streams[s]) : bench.elementwise(work, streams[s]);
      for (std::size_t on : waits[s]) played.dependencies.push_back({played.work.size(), on});
      waits[s].clear();
      played.work.push_back({work});
      played.streams.push_back(streams[s]);
      played.collective.push_back(collective);
      last[s] = played.work.size();
    }
    if (curious && !events.empty()) static_cast<void>(bench.device.event_complete(events.back().first));
  }
  bench.device.synchronize();
  REQUIRE_FALSE(bench.device.deadlock());
  played.timings.assign(bench.device.timings().begin(), bench.device.timings().end());
  played.host = bench.device.host_now();
  return played;
}

bool same(const Played& a, const Played& b) {
  if (a.timings.size() != b.timings.size()) return false;
  for (std::size_t i = 0; i < a.timings.size(); ++i)
    if (a.timings[i].issue != b.timings[i].issue || a.timings[i].start != b.timings[i].start ||
        a.timings[i].end != b.timings[i].end)
      return false;
  return a.host == b.host;
}

constexpr unsigned kSeeds = 200;

TEST_CASE("the same program gives the same timings, however often events are asked for") {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed);
    const Played once = play(seed, round_machine(), false);
    CHECK(same(once, play(seed, round_machine(), false)));
    CHECK(same(once, play(seed, round_machine(), true)));
  }
}

TEST_CASE("causality: issue, start and end are in order; streams, chains and waits hold") {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed);
    const Played played = play(seed, *builtin_profile("h200"), true);
    std::array<Nanoseconds, 3> stream_end{};
    Nanoseconds chain_end;
    for (std::size_t i = 0; i < played.timings.size(); ++i) {
      const OpTiming& timing = played.timings[i];
      REQUIRE(timing.issue <= timing.start);
      REQUIRE(timing.start <= timing.end);
      REQUIRE(timing.start >= stream_end[played.streams[i].value]);
      stream_end[played.streams[i].value] = timing.end;
      if (!played.collective[i]) continue;
      REQUIRE(timing.start >= chain_end);
      chain_end = timing.end;
    }
    for (const Dependency& dependency : played.dependencies)
      REQUIRE(played.timings[dependency.op].start >= played.timings[dependency.on].end);
  }
}

TEST_CASE("work is conserved: nothing ends before its work is done, and without contention exactly then") {
  MachineProfile machine = round_machine();
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed);
    const Played contended = play(seed, round_machine(), false);
    for (std::size_t i = 0; i < contended.work.size(); ++i)
      REQUIRE(contended.timings[i].end - contended.timings[i].start >= contended.work[i]);
    machine.contention = {};
    const Played uncontended = play(seed, machine, false);
    for (std::size_t i = 0; i < uncontended.work.size(); ++i)
      REQUIRE(uncontended.timings[i].end - uncontended.timings[i].start == uncontended.work[i]);
  }
}

TEST_CASE("faster links never make a chain of collectives end later") {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    MachineProfile fast = round_machine();
    for (CollectiveTable& table : fast.collectives)
      for (CollectiveTable::Point& point : table.points) point.time = point.time.scaled(0.7);
    Bench slow_bench;
    Bench fast_bench(fast);
    for (int i = 0; i < 50; ++i) {
      const Bytes bytes = random() % 50'000;
      const auto work = static_cast<std::int64_t>(random() % 50'000);
      for (Bench* bench : {&slow_bench, &fast_bench}) {
        bench->all_gather(bytes);
        bench->device.stream_wait_event(kComputeStream, bench->device.record_event(bench->gather));
        bench->gemm(work);
      }
    }
    slow_bench.device.synchronize();
    fast_bench.device.synchronize();
    CHECK(fast_bench.device.host_now() <= slow_bench.device.host_now());
  }
}

}  // namespace
}  // namespace foreshard::sim
