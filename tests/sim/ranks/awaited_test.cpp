// What held up the rank that others wait for: cases by hand, each with one thing that makes it late.
#include "sim/ranks/awaited.hpp"

#include "sim/machine/profile.hpp"
#include "sim/ranks/job.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr StreamId kSide{1}, kFirst{2}, kSecond{3};

/// A program of one step, call by call.
class Calls {
 public:
  Calls() {
    for (int i = 0; i < 3; ++i) log_.call(DeviceLog::Kind::add_stream);
  }
  void group(const char* name, std::uint32_t ranks, std::uint32_t ranks_per_node, std::vector<std::uint32_t> members) {
    log_.add_communicator({name, ranks, ranks_per_node, std::move(members)});
  }
  void work(std::int64_t ns) { log_.call(DeviceLog::Kind::host_work, 0, ns); }
  void kernel(std::int64_t ns, StreamId stream = kComputeStream) {
    log_.submit({.stream = stream, .communicator = {}, .running_op = {}, .work = {ns}}, DeviceLog::kOnce);
    last_ = OpId{ops_++};
  }
  void synchronize() { log_.call(DeviceLog::Kind::synchronize); }
  void collective(StreamId stream, std::uint32_t communicator, std::int64_t ns = kMillisecond) {
    log_.submit({.stream = stream,
                 .communicator = CommunicatorId{communicator},
                 .running_op = {RunningOp::Role::collective, {}, {}},
                 .work = {ns}},
                DeviceLog::kOnce);
    ++ops_;
  }
  /// What `stream` gets from now on waits for all that `on` has.
  void wait(StreamId stream, StreamId on) {
    log_.call(DeviceLog::Kind::record, on.value);
    log_.call(DeviceLog::Kind::wait, stream.value, events_++);
  }
  /// With a last kernel that waits for both streams of collectives.
  HostProgram program() {
    wait(kComputeStream, kFirst);
    wait(kComputeStream, kSecond);
    kernel(kMillisecond);
    return host_program(log_, {last_});
  }

 private:
  DeviceLog log_;
  OpId last_;
  std::uint32_t ops_ = 0;
  std::int64_t events_ = 0;
};

/// What the others waited for rank `of` in the first step.
Awaited awaited(const std::vector<const HostProgram*>& programs, const std::vector<RankTraits>& ranks,
                std::uint32_t of) {
  JobRequest request;
  request.programs = programs;
  request.ranks = ranks;
  request.tells_delays = true;
  const Job job = simulate_job(*builtin_profile("h200"), request);
  REQUIRE(job.stuck.empty());
  CHECK((job.of(of).awaited_in[0] == job.of(of).awaited));
  return job.of(of).awaited_in[0];
}

/// … of `ranks`, of which `rank`'s GPU and host take so many times as long.
Awaited awaited(const HostProgram& program, std::uint32_t ranks, std::uint32_t rank, double kernels, double host,
                std::uint32_t of) {
  std::vector<RankTraits> traits(ranks);
  traits[rank].kernels = kernels;
  traits[rank].host = host;
  return awaited({&program}, traits, of);
}

/// Two kernels, and behind them a copy on another stream and a collective of two ranks.
HostProgram behind_kernels(std::int64_t work, std::int64_t kernel) {
  Calls calls;
  calls.group("shard", 2, 2, {0, 1});
  for (int i = 0; i < 2; ++i) {
    calls.work(work);
    calls.kernel(kernel);
  }
  calls.wait(kSide, kComputeStream);
  calls.kernel(1000, kSide);
  calls.wait(kFirst, kSide);
  calls.collective(kFirst, 0);
  return calls.program();
}

TEST_CASE("a rank with a slow GPU is held up by it, also where another stream's copy lies between") {
  const Awaited late = awaited(behind_kernels(1000, kMillisecond), 2, 1, 1.5, 1, 1);
  CHECK(late.of(Resource::gpu).count == kMillisecond + 500);  // half of each kernel and of the copy
  CHECK(late.all == late.of(Resource::gpu));
  CHECK(late.most() == Resource::gpu);
}

TEST_CASE("a rank whose host launches late is held up by it, through the kernel that waited for its launch") {
  const Awaited late = awaited(behind_kernels(kMillisecond, 1000), 2, 1, 1, 1.5, 1);
  CHECK(late.of(Resource::host).count == kMillisecond);  // twice half a millisecond
  CHECK(late.all == late.of(Resource::host));
  CHECK(late.most() == Resource::host);
}

TEST_CASE("of a host that is late, and a GPU that is slow besides, each counts for its part") {
  const Awaited late = awaited(behind_kernels(kMillisecond, 1000), 2, 1, 3, 1.5, 1);
  CHECK(late.of(Resource::host).count == kMillisecond);
  CHECK(late.of(Resource::gpu).count == 4000);  // the second kernel and the copy, of 1000 each
}

TEST_CASE("a slow GPU that all hosts keep waiting is late itself, not its host") {
  const Awaited late = awaited(behind_kernels(kMillisecond, 1000), 2, 1, 3, 1, 1);
  CHECK(late.of(Resource::gpu).count == 4000);
  CHECK(late.all == late.of(Resource::gpu));
}

TEST_CASE("of a slow host whose GPU is busy all the same the first launch counts alone") {
  const Awaited late = awaited(behind_kernels(1000, kMillisecond), 2, 1, 1.5, 100, 1);
  CHECK(late.of(Resource::host).count == 99'000);
  CHECK(late.of(Resource::gpu).count == kMillisecond + 500);
  CHECK(late.all.count == kMillisecond + 99'500);
}

TEST_CASE("a host that its own slow GPU has blocked is not late itself, however long it works behind that") {
  Calls calls;
  calls.group("shard", 2, 2, {0, 1});
  calls.kernel(kMillisecond);
  calls.synchronize();
  for (int i = 0; i < 20; ++i) {  // from here on the host sets the pace
    calls.work(kMillisecond);
    calls.kernel(1000);
  }
  calls.wait(kFirst, kComputeStream);
  calls.collective(kFirst, 0);
  const HostProgram program = calls.program();
  const Awaited late = awaited(program, 2, 1, 2, 1, 1);
  CHECK(late.all.count == kMillisecond + 1000);
  CHECK(late.all == late.of(Resource::gpu));
  const Awaited both = awaited(program, 2, 1, 2, 1.01, 1);
  CHECK(both.of(Resource::gpu).count == kMillisecond + 1000);
  CHECK(both.of(Resource::host).count == 200'000);  // a hundredth of each piece
}

TEST_CASE("a host that a full launch queue has blocked is not late itself") {
  Calls calls;
  calls.group("shard", 2, 2, {0, 1});
  const std::uint32_t queue = builtin_profile("h200")->launch_queue;
  REQUIRE(queue > 0);
  for (std::uint32_t i = 0; i < queue + 100; ++i) calls.kernel(10'000);
  for (int i = 0; i < 20; ++i) {
    calls.work(kMillisecond);
    calls.kernel(1000);
  }
  calls.wait(kFirst, kComputeStream);
  calls.collective(kFirst, 0);
  const Awaited late = awaited(calls.program(), 2, 1, 1.5, 1, 1);
  CHECK(late.all.count > kMillisecond / 4);
  CHECK(late.all == late.of(Resource::gpu));
}

/// Behind a kernel two collectives: of ranks next to each other, `first` ns alone, and then of one in each of these
/// pairs, with a kernel between the two.
HostProgram one_behind_the_other(std::uint32_t ranks_per_node, std::int64_t first, std::int64_t between) {
  Calls calls;
  calls.group("shard", 2, ranks_per_node, {0, 1});
  calls.group("replicate", 2, 1, {0, 2});
  calls.work(1000);
  calls.kernel(kMillisecond);
  calls.wait(kFirst, kComputeStream);
  calls.collective(kFirst, 0, first);
  calls.wait(kComputeStream, kFirst);
  calls.kernel(between);
  calls.wait(kSecond, kComputeStream);
  calls.collective(kSecond, 1);
  return calls.program();
}

TEST_CASE("a slow GPU is what holds up those that waited for it, too") {
  const HostProgram program = one_behind_the_other(2, kMillisecond, 1000);
  // Rank 0 waits for rank 1 in their own collective; ranks 2 and 3 then wait for either, whose collective ends late.
  const Awaited slow = awaited(program, 4, 1, 2, 1, 1);
  CHECK(slow.all.count == 2 * kMillisecond + 1000);
  CHECK(slow.all == slow.of(Resource::gpu));
  const Awaited beside = awaited(program, 4, 1, 2, 1, 0);
  CHECK(beside.all.count == kMillisecond);
  CHECK(beside.all == beside.of(Resource::gpu));
}

TEST_CASE("ranks of a slow link are held up by it, through the kernels behind their collective") {
  for (const std::uint32_t ranks_per_node : {2U, 1U})
    for (const std::int64_t between : {1000L, 5 * kMillisecond}) {
      const HostProgram healthy = one_behind_the_other(ranks_per_node, kMillisecond, between);
      const HostProgram slow = one_behind_the_other(ranks_per_node, 3 * kMillisecond, between);
      const Awaited late = awaited({&healthy, &slow}, {{}, {}, {.program = 1}, {.program = 1}}, 2);
      CHECK(late.all.count == 2 * 2 * kMillisecond);  // by ranks 0 and 1
      CHECK(late.all == late.of(ranks_per_node == 2 ? Resource::nvlink : Resource::network));
    }
}

TEST_CASE("where the waiting rank's own kernels hide a part of a slow link, the rest of the wait is the link's") {
  const auto program = [](std::int64_t first) {
    Calls calls;
    calls.group("shard", 2, 1, {0, 1});
    calls.group("replicate", 2, 1, {0, 2});
    calls.collective(kFirst, 0, first);
    calls.kernel(2 * kMillisecond);  // hides the healthy one
    calls.wait(kComputeStream, kFirst);
    calls.kernel(1000);
    calls.wait(kSecond, kComputeStream);
    calls.collective(kSecond, 1);
    return calls.program();
  };
  const HostProgram healthy = program(kMillisecond), slow = program(4 * kMillisecond);
  const Awaited late = awaited({&healthy, &slow}, {{}, {}, {.program = 1}, {.program = 1}}, 2);
  CHECK(late.all.count > 2 * 2 * kMillisecond);  // by ranks 0 and 1
  CHECK(late.all.count < 2 * 2 * kMillisecond + kMillisecond / 10);
  CHECK(late.all == late.of(Resource::network));
  // What their own GPUs are late by counts beside it.
  std::vector<RankTraits> traits{{}, {}, {.program = 1}, {.program = 1}};
  for (RankTraits& rank : traits) rank.kernels = 1.5;
  const Awaited waited = awaited({&healthy, &slow}, traits, 2);
  CHECK(waited.all < late.all);
  CHECK(waited.all == waited.of(Resource::network));
}

TEST_CASE("of ranks that run other kernels all that they run counts, not what factors make of it") {
  const HostProgram usual = behind_kernels(1000, kMillisecond), more = behind_kernels(1000, 2 * kMillisecond);
  const Awaited late = awaited({&usual, &more}, {{}, {.program = 1}}, 1);
  CHECK(late.all.count == 2 * kMillisecond);
  CHECK(late.all == late.of(Resource::gpu));
}

TEST_CASE("without being asked for nothing is divided") {
  JobRequest request;
  const HostProgram program = behind_kernels(1000, kMillisecond);
  request.programs = {&program};
  request.ranks = {{}, {.kernels = 2}};
  const Job job = simulate_job(*builtin_profile("h200"), request);
  CHECK(job.of(1).awaited.all.count > 0);
  for (const Nanoseconds part : job.of(1).awaited.by) CHECK(part.count == 0);
}

TEST_CASE("sums of waits stay at the largest number") {
  Awaited sum;
  sum.all = sum.by[1] = {INT64_MAX - 1};
  sum += sum;
  CHECK(sum.of(Resource::host).count == INT64_MAX);
  CHECK(sum.all.count == INT64_MAX);
  CHECK(sum.most() == Resource::host);
  const Awaited ahead = awaited_for({{-1, -5, 0, 0}}, {}, {7}, 3);
  CHECK(ahead.all == ahead.of(Resource::host));
  const Awaited in_order = awaited_for({}, {}, {7}, 3);
  CHECK(in_order.all.count == 21);
  CHECK(in_order.all == in_order.of(Resource::gpu));
  const Awaited parts = awaited_for({{1, 1, 1, 0}}, {}, {10}, 1);
  CHECK(parts.of(Resource::gpu) + parts.of(Resource::host) + parts.of(Resource::nvlink) == parts.all);
  const Awaited long_one = awaited_for({{5, 0, 5, 0}}, {{0, 0, -5, 9}}, {INT64_MAX}, 8);
  CHECK(long_one.all.count == INT64_MAX);
  CHECK(long_one.of(Resource::nvlink) > long_one.of(Resource::gpu));
  CHECK(long_one.of(Resource::network).count == 0);
}

}  // namespace
}  // namespace foreshard::sim
