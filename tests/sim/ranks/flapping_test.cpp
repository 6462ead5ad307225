// A link that flaps under collectives, in exact cases: what is lost is what the link did not carry, from and to the
// nanosecond at which it changes.
#include <optional>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/ranks/job.hpp"
#include "tests/catch.hpp"
#include "tests/sim/ranks/logged_program.hpp"

namespace foreshard::sim {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kTakes = 100 * kMs;
constexpr std::int64_t kPeriod = 1'000'000 * kMs;  // longer than any case: one outage

/// 100 ms over links that carry all, and as much longer as they carry less.
class Bandwidth : public CollectiveCost {
 public:
  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override {
    CollectivePrice out;
    out.time = Nanoseconds{kTakes}.scaled(1 / (request.network_rate > 0 ? request.network_rate : 1));
    out.network_bytes = 1;
    return out;
  }
};

/// Four nodes of one GPU. Each rank issues, on a stream each, what communicators ask of it.
HostProgram collectives(const std::vector<CommunicatorOptions>& communicators) {
  DeviceLog log;
  for (const CommunicatorOptions& one : communicators) log.add_communicator(one);
  for (std::uint32_t c = 0; c < communicators.size(); ++c) {
    log.call(DeviceLog::Kind::add_stream);
    CollectiveRequest request{CollectiveKind::all_gather, Transport::nccl, kMiB, communicators[c].ranks, 1};
    request.node_stride = communicators[c].node_stride;
    log.price(request);
    log.submit({.stream = StreamId{1 + c},
                .communicator = CommunicatorId{c},
                .running_op = {RunningOp::Role::collective, {}, {}},
                .work = {kTakes}},
               DeviceLog::kOnce);
  }
  return host_program(log, {});
}

MeetingTimes played(const HostProgram& program, const std::vector<Flap>& flaps, std::uint32_t rank = 0,
                    std::uint32_t leaf = 0) {
  MachineProfile machine = *builtin_profile("h100");
  machine.network.leaf_nodes = leaf;
  const Bandwidth prices;
  JobRequest request;
  request.programs = {&program};
  request.ranks.resize(4);
  request.keep_meetings = {0, 1, 2, 3};
  request.fabric = {&prices, 1, flaps};
  const Job job = simulate_job(machine, request);
  REQUIRE(job.stuck.empty());
  return job.of(rank).meetings[0][0];
}

Flap adapter(std::uint32_t node, std::int64_t phase, std::int64_t down, double left = 0,
             std::int64_t period = kPeriod) {
  Flap out;
  out.link = {FlappingLink::Kind::adapter, node, 0, {down}, {period}, left};
  out.phase = {phase};
  return out;
}

const CommunicatorOptions kAll{"all", 4, 1, {0, 1, 2, 3}};

}  // namespace

TEST_CASE("a ring over an adapter that is down ends exactly so much later") {
  const HostProgram ring = collectives({kAll});
  const MeetingTimes up = played(ring, {});
  const std::int64_t begin = up.all_there.count;
  CHECK(up.all_done.count == begin + kTakes);
  for (const std::uint32_t node : {0U, 1U, 3U}) {
    CHECK(played(ring, {adapter(node, 0, 0)}).all_done == up.all_done);
    for (const std::int64_t phase : {begin, begin + 1, begin + 37 * kMs + 1, begin + kTakes - 1})
      CHECK(played(ring, {adapter(node, phase, 200 * kMs)}).all_done.count == up.all_done.count + 200 * kMs);
    // It is down when the last rank comes, or goes down in the instant of the end.
    CHECK(played(ring, {adapter(node, begin - 150, 200)}).all_done.count == up.all_done.count + 50);
    CHECK(played(ring, {adapter(node, up.all_done.count, 200 * kMs)}).all_done == up.all_done);
  }
  // Down for 5 of every 20 ms: 100 ms of work are done in the 15 between.
  CHECK(played(ring, {adapter(1, begin + 15 * kMs, 5 * kMs, 0, 20 * kMs)}).all_done.count ==
        begin + (6 * 20 + 10) * kMs);
}

TEST_CASE("half of the capacity for a while loses half of it") {
  const HostProgram ring = collectives({kAll});
  const MeetingTimes up = played(ring, {});
  const std::int64_t begin = up.all_there.count;
  CHECK(played(ring, {adapter(1, begin + 10 * kMs, 40 * kMs, 0.5)}).all_done.count == up.all_done.count + 20 * kMs);
  CHECK(played(ring, {adapter(1, begin - 20 * kMs, 40 * kMs, 0.5)}).all_done.count == up.all_done.count + 10 * kMs);
  CHECK(played(ring, {adapter(1, begin, 1000 * kMs, 0.5)}).all_done.count == begin + 2 * kTakes);
}

TEST_CASE("a flap outside of any collective, or of an adapter that none goes over, changes nothing") {
  const HostProgram ring = collectives({kAll});
  const MeetingTimes up = played(ring, {});
  CHECK(played(ring, {adapter(1, up.all_done.count + 1, 200 * kMs)}).all_done == up.all_done);
  CHECK(played(ring, {adapter(1, up.all_there.count - 500, 500)}).all_done == up.all_done);
  Flap other = adapter(1, up.all_there.count, 200 * kMs);
  other.link.adapter = 3;  // the GPU of each node keeps to adapter 0
  CHECK(played(ring, {other}).all_done == up.all_done);
}

TEST_CASE("only the group over the adapter waits") {
  const HostProgram pairs = collectives({{"pairs", 2, 1, {0, 1}}});
  const MeetingTimes up = played(pairs, {});
  const Flap down = adapter(1, up.all_there.count + kMs, 200 * kMs);
  for (const std::uint32_t rank : {0U, 1U})
    CHECK(played(pairs, {down}, rank).all_done.count == up.all_done.count + 200 * kMs);
  for (const std::uint32_t rank : {2U, 3U}) CHECK(played(pairs, {down}, rank).all_done == up.all_done);
}

TEST_CASE("of two adapters that flap each holds the ring up, and both at once no longer than the longer") {
  const HostProgram ring = collectives({kAll});
  const MeetingTimes up = played(ring, {});
  const std::int64_t begin = up.all_there.count, done = up.all_done.count;
  const auto later = [&](const std::vector<Flap>& flaps) { return played(ring, flaps).all_done.count - done; };
  // One after the other: the second goes down in the nanosecond in which the first comes back, or later.
  CHECK(later({adapter(0, begin + kMs, 20 * kMs), adapter(2, begin + 21 * kMs, 30 * kMs)}) == 50 * kMs);
  CHECK(later({adapter(0, begin + kMs, 20 * kMs), adapter(2, begin + 60 * kMs, 30 * kMs)}) == 50 * kMs);
  // Overlapping: what is down from the first's begin to the second's end.
  CHECK(later({adapter(0, begin + kMs, 20 * kMs), adapter(2, begin + 11 * kMs + 1, 30 * kMs)}) == 40 * kMs + 1);
  CHECK(later({adapter(0, begin + kMs, 40 * kMs), adapter(2, begin + 11 * kMs, 10 * kMs)}) == 40 * kMs);
  // The one that has less left decides.
  CHECK(later({adapter(0, begin, 20 * kMs, 0.5), adapter(2, begin + 10 * kMs, 20 * kMs, 0.25)}) == (5 + 15) * kMs);
  // Beside an uplink of their leaf.
  Flap leaf = adapter(1, begin + kMs, 20 * kMs);
  leaf.link.kind = FlappingLink::Kind::uplinks;
  const std::int64_t up_done = played(ring, {}, 0, 2).all_done.count;
  CHECK(played(ring, {adapter(0, begin + 30 * kMs, 5 * kMs), leaf}, 0, 2).all_done.count == up_done + 25 * kMs);
}

TEST_CASE("uplinks hold up the groups that leave the leaf") {
  const HostProgram ring = collectives({kAll}), pairs = collectives({{"pairs", 2, 1, {0, 1}}});
  Flap down = adapter(1, 0, 200 * kMs);
  down.link.kind = FlappingLink::Kind::uplinks;
  const MeetingTimes up = played(ring, {}, 0, 2);
  down.phase = {up.all_there.count + kMs};
  CHECK(played(ring, {down}, 0, 2).all_done.count == up.all_done.count + 200 * kMs);
  CHECK(played(pairs, {down}, 2, 2).all_done == up.all_done);
}

TEST_CASE("of two collectives over one adapter each loses while it is down") {
  CommunicatorOptions other = kAll;
  other.name = "other";
  const HostProgram both = collectives({kAll, other});
  const MeetingTimes up = played(both, {adapter(1, 0, 0)});
  CHECK(up.all_done.count > up.all_there.count + kTakes);
  const std::int64_t middle = up.all_there.count + kTakes / 2;
  CHECK(played(both, {adapter(1, middle, 200 * kMs)}).all_done.count == up.all_done.count + 200 * kMs);
}

TEST_CASE("folding, threads and short ways change nothing of a job with links that flap") {
  MachineProfile machine = *builtin_profile("h100");
  Settings settings;
  settings.gpus = 2;
  settings.nodes = 8;
  settings.batch = 1;
  settings.seq = 256;
  settings.param_dtype = DType::bfloat16;
  for (const auto& [replicate, leaf] : {std::pair{1U, 0U}, std::pair{4U, 0U}, std::pair{2U, 3U}}) {
    settings.replicate = replicate;
    machine.network.leaf_nodes = leaf;
    machine.network.oversubscription = 2;
    const Workload workload =
        generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
    const HostProgram program = test::logged_program(workload, machine).program;
    const ModelledCollectives prices(machine);
    const auto job_with = [&](const std::vector<Flap>& flaps, bool fold, unsigned threads, bool short_ways) {
      JobRequest job;
      job.programs = {&program};
      job.ranks.resize(settings.world());
      job.ranks[5].kernels = 1.25;
      job.host_scale = 0.1;
      job.fold = fold;
      job.threads = threads;
      job.short_ways = short_ways;
      job.fabric = {&prices, settings.gpus, flaps};
      return simulate_job(machine, job);
    };
    const Job up = job_with({adapter(3, 0, 0)}, true, 1, true);
    if (replicate == 1) CHECK(up.of(0).step_ends == job_with({}, true, 1, true).of(0).step_ends);
    for (const double left : {0.0, 0.3}) {
      const std::vector<Flap> flaps{adapter(3, 123'456, 400'001, left, 1'000'003),
                                    adapter(6, 0, 77'777, left, 700'001)};
      const Job folded = job_with(flaps, true, 1, true);
      CHECK(folded.stuck.empty());
      CAPTURE(replicate, leaf, left, folded.last_end(2).count, up.last_end(2).count);
      CHECK(folded.last_end(2) > up.last_end(2));
      for (const Job& other :
           {job_with(flaps, false, 1, true), job_with(flaps, true, 4, true), job_with(flaps, true, 1, false)})
        for (std::uint32_t rank = 0; rank < settings.world(); ++rank) {
          CAPTURE(replicate, leaf, left, rank);
          CHECK(folded.of(rank).step_ends == other.of(rank).step_ends);
          CHECK(folded.of(rank).waited == other.of(rank).waited);
        }
    }
  }
}

}  // namespace foreshard::sim
