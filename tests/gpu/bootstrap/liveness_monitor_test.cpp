#include "gpu/bootstrap/liveness_monitor.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using std::chrono::seconds;

namespace {

const TimePoint kStart{};

/// Three ranks that all came at the start.
LivenessMonitor joined() {
  LivenessMonitor monitor(3, Timeouts{}, kStart);
  for (std::uint32_t rank = 0; rank < 3; ++rank) monitor.joined(rank, kStart);
  return monitor;
}

void all_heard(LivenessMonitor& monitor, TimePoint now) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) monitor.heard(rank, now);
}

}  // namespace

TEST_CASE("ranks that come, get on and finish are never overdue") {
  LivenessMonitor monitor = joined();
  for (int s = 1; s < 500; ++s) {
    const TimePoint now = kStart + seconds(s);
    all_heard(monitor, now);
    for (std::uint32_t rank = 0; rank < 3; ++rank) monitor.heartbeat(rank, s, Milliseconds(0), "x", now);
    REQUIRE_FALSE(monitor.overdue(now));
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) monitor.finished(rank);
  CHECK(monitor.all_finished());
}

TEST_CASE("a rank that never comes") {
  LivenessMonitor monitor(3, Timeouts{}, kStart);
  monitor.joined(0, kStart);
  monitor.joined(2, kStart);
  all_heard(monitor, kStart + seconds(60));
  CHECK_FALSE(monitor.overdue(kStart + seconds(59)));
  const auto failure = monitor.overdue(kStart + seconds(60));
  REQUIRE(failure);
  CHECK(failure->kind == ErrorKind::rendezvous);
  CHECK(failure->text() == "rank 1 did not come to the rendezvous within 60.0 s (2 of 3 ranks came)");
}

TEST_CASE("the first rank that has not come, while there is time") {
  LivenessMonitor monitor(3, {}, kStart);
  monitor.joined(0, kStart);
  const RunFailure failure = monitor.absent("before rank 0 was told to end");
  CHECK(failure.kind == ErrorKind::rendezvous);
  CHECK(failure.text() == "rank 1 did not come to the rendezvous before rank 0 was told to end (1 of 3 ranks came)");
}

TEST_CASE("the rank that is silent longest") {
  LivenessMonitor monitor = joined();
  monitor.heard(0, kStart + seconds(3));
  monitor.heard(1, kStart + seconds(1));
  monitor.heard(2, kStart + seconds(2));
  CHECK_FALSE(monitor.overdue(kStart + seconds(3)));
  CHECK(monitor.overdue(kStart + seconds(8))->rank == 1U);
}

TEST_CASE("the rank that got the least far hangs, the others wait for it") {
  LivenessMonitor monitor = joined();
  monitor.heartbeat(0, 10, Milliseconds(0), "all-gather", kStart + seconds(1));
  monitor.heartbeat(1, 9, Milliseconds(0), "GEMM", kStart + seconds(2));
  monitor.heartbeat(2, 10, Milliseconds(0), "all-gather", kStart + seconds(1));
  const TimePoint late = kStart + seconds(61);
  all_heard(monitor, late);
  CHECK_FALSE(monitor.overdue(late));  // rank 1 reported a second later
  all_heard(monitor, late + seconds(1));
  const auto failure = monitor.overdue(late + seconds(1));
  REQUIRE(failure);
  CHECK(failure->text() == "rank 1 hangs: no new operation for 60.0 s; its last operation: GEMM");
}

TEST_CASE("timeout is the rank's own") {
  LivenessMonitor monitor = joined();
  monitor.heartbeat(0, 1, Milliseconds(300'000), "NCCL init", kStart);
  monitor.heartbeat(1, 2, Milliseconds(0), "waits in NCCL", kStart);
  monitor.heartbeat(2, 2, Milliseconds(0), "waits in NCCL", kStart);
  for (const int s : {61, 299}) {
    all_heard(monitor, kStart + seconds(s));
    CHECK_FALSE(monitor.overdue(kStart + seconds(s)));
  }
  all_heard(monitor, kStart + seconds(300));
  CHECK(monitor.overdue(kStart + seconds(300))->rank == 0U);
}

TEST_CASE("who waits in a collective call does not hang; who does not come to it is awaited") {
  LivenessMonitor monitor = joined();
  monitor.waits(0, "NCCL id", kStart);
  monitor.waits(1, "NCCL id", kStart + seconds(30));
  for (int s = 1; s < 600; ++s) {  // rank 2 gets on, and on
    all_heard(monitor, kStart + seconds(s));
    monitor.heartbeat(2, s, Milliseconds(0), "compiles", kStart + seconds(s));
    REQUIRE_FALSE(monitor.overdue(kStart + seconds(s)));
  }
  all_heard(monitor, kStart + seconds(600));
  const auto failure = monitor.overdue(kStart + seconds(600));
  REQUIRE(failure);
  CHECK(failure->text() == "rank 2 did not come to 'NCCL id' within 600.0 s; its last operation: compiles");
  monitor.met(kStart + seconds(600));
  CHECK_FALSE(monitor.overdue(kStart + seconds(600)));
}

TEST_CASE("nobody is to name as the cause for the watcher's own pause") {
  LivenessMonitor monitor = joined();
  monitor.paused(Milliseconds(100'000));
  CHECK_FALSE(monitor.overdue(kStart + seconds(103)));
  CHECK(monitor.overdue(kStart + seconds(104)));
}
