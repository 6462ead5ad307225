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
  void collective(StreamId stream, std::uint32_t communicator) {
    log_.submit({.stream = stream,
                 .communicator = CommunicatorId{communicator},
                 .running_op = {RunningOp::Role::collective, {}, {}},
                 .work = {kMillisecond}},
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

/// What the others waited for `rank`, whose GPU and host take so many times as long.
Awaited awaited(const HostProgram& program, std::uint32_t ranks, std::uint32_t rank, double kernels, double host,
                std::uint32_t of) {
  JobRequest request;
  request.programs = {&program};
  request.ranks.resize(ranks);
  request.ranks[rank].kernels = kernels;
  request.ranks[rank].host = host;
  const Job job = simulate_job(*builtin_profile("h200"), request);
  REQUIRE(job.stuck.empty());
  CHECK((job.of(of).awaited_in[0] == job.of(of).awaited));
  return job.of(of).awaited_in[0];
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
  CHECK(late.all() == late.of(Resource::gpu));
  CHECK(late.most() == Resource::gpu);
}

TEST_CASE("a rank whose host launches late is held up by it, through the kernel that waited for its launch") {
  const Awaited late = awaited(behind_kernels(kMillisecond, 1000), 2, 1, 1, 1.5, 1);
  CHECK(late.of(Resource::host).count == kMillisecond);  // twice half a millisecond
  CHECK(late.all() == late.of(Resource::host));
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
  CHECK(late.all() == late.of(Resource::gpu));
}

TEST_CASE("a rank with a slow host whose GPU is busy all the same is held up by its GPU") {
  const Awaited late = awaited(behind_kernels(1000, kMillisecond), 2, 1, 1.5, 100, 1);
  CHECK(late.of(Resource::host).count == 0);
  CHECK(late.of(Resource::gpu).count > 0);
}

/// Behind a kernel two collectives: of ranks next to each other, and then of one in each of these pairs.
HostProgram one_behind_the_other(std::uint32_t ranks_per_node) {
  Calls calls;
  calls.group("shard", 2, ranks_per_node, {0, 1});
  calls.group("replicate", 2, 1, {0, 2});
  calls.work(1000);
  calls.kernel(kMillisecond);
  calls.wait(kFirst, kComputeStream);
  calls.collective(kFirst, 0);
  calls.wait(kSecond, kFirst);
  calls.collective(kSecond, 1);
  return calls.program();
}

TEST_CASE("a rank is held up by the link whose collective ended late before the one that others wait in") {
  for (const std::uint32_t ranks_per_node : {2U, 1U}) {
    const HostProgram program = one_behind_the_other(ranks_per_node);
    const Resource link = ranks_per_node == 2 ? Resource::nvlink : Resource::network;
    // Rank 0 waits for rank 1 in their own collective; ranks 2 and 3 then wait for either, whose collective ends late.
    const Awaited slow = awaited(program, 4, 1, 2, 1, 1);
    CHECK(slow.of(Resource::gpu).count == kMillisecond);
    CHECK(slow.of(link).count == kMillisecond);
    CHECK(slow.all().count == 2 * kMillisecond);
    const Awaited beside = awaited(program, 4, 1, 2, 1, 0);
    CHECK(beside.of(link).count == kMillisecond);
    CHECK(beside.all().count == kMillisecond);
  }
}

TEST_CASE("sums of waits stay at the largest number") {
  Awaited sum;
  sum.of(Resource::host) = {INT64_MAX - 1};
  sum += sum;
  CHECK(sum.of(Resource::host).count == INT64_MAX);
  sum.of(Resource::gpu) = {5};
  CHECK(sum.all().count == INT64_MAX);
  CHECK(sum.most() == Resource::host);
  CHECK(Awaited{}.most() == Resource::gpu);
}

}  // namespace
}  // namespace foreshard::sim
