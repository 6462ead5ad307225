#include "gpu/bootstrap/watch.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using std::chrono::seconds;

namespace {

const TimePoint kStart{};

/// Three ranks that all came at the start.
Watch joined() {
  Watch watch(3, Timeouts{}, kStart);
  for (std::uint32_t rank = 0; rank < 3; ++rank) watch.joined(rank, kStart);
  return watch;
}

void all_heard(Watch& watch, TimePoint now) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) watch.heard(rank, now);
}

}  // namespace

TEST_CASE("ranks that come, get on and finish are never overdue") {
  Watch watch = joined();
  for (int s = 1; s < 500; ++s) {
    const TimePoint now = kStart + seconds(s);
    all_heard(watch, now);
    for (std::uint32_t rank = 0; rank < 3; ++rank) watch.beat(rank, s, Milliseconds(0), "x", now);
    REQUIRE_FALSE(watch.overdue(now));
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) watch.finished(rank);
  CHECK(watch.all_finished());
}

TEST_CASE("a rank that never comes") {
  Watch watch(3, Timeouts{}, kStart);
  watch.joined(0, kStart);
  watch.joined(2, kStart);
  all_heard(watch, kStart + seconds(60));
  CHECK_FALSE(watch.overdue(kStart + seconds(59)));
  const auto failure = watch.overdue(kStart + seconds(60));
  REQUIRE(failure);
  CHECK(failure->kind == ErrorKind::rendezvous);
  CHECK(failure->text() == "rank 1 did not come to the rendezvous within 60.0 s (2 of 3 ranks came)");
}

TEST_CASE("the rank that is silent longest") {
  Watch watch = joined();
  watch.heard(0, kStart + seconds(3));
  watch.heard(1, kStart + seconds(1));
  watch.heard(2, kStart + seconds(2));
  CHECK_FALSE(watch.overdue(kStart + seconds(3)));
  CHECK(watch.overdue(kStart + seconds(8))->rank == 1U);
}

TEST_CASE("the rank that got the least far hangs, the others wait for it") {
  Watch watch = joined();
  watch.beat(0, 10, Milliseconds(0), "all-gather", kStart + seconds(1));
  watch.beat(1, 9, Milliseconds(0), "GEMM", kStart + seconds(2));
  watch.beat(2, 10, Milliseconds(0), "all-gather", kStart + seconds(1));
  const TimePoint late = kStart + seconds(61);
  all_heard(watch, late);
  CHECK_FALSE(watch.overdue(late));  // rank 1 reported a second later
  all_heard(watch, late + seconds(1));
  const auto failure = watch.overdue(late + seconds(1));
  REQUIRE(failure);
  CHECK(failure->text() == "rank 1 hangs: no new operation for 60.0 s; its last operation: GEMM");
}

TEST_CASE("patience is the rank's own") {
  Watch watch = joined();
  watch.beat(0, 1, Milliseconds(300'000), "NCCL init", kStart);
  watch.beat(1, 2, Milliseconds(0), "waits in NCCL", kStart);
  watch.beat(2, 2, Milliseconds(0), "waits in NCCL", kStart);
  for (const int s : {61, 299}) {
    all_heard(watch, kStart + seconds(s));
    CHECK_FALSE(watch.overdue(kStart + seconds(s)));
  }
  all_heard(watch, kStart + seconds(300));
  CHECK(watch.overdue(kStart + seconds(300))->rank == 0U);
}

TEST_CASE("who waits in a collective call does not hang; who does not come to it is awaited") {
  Watch watch = joined();
  watch.waits(0, "NCCL id", kStart);
  watch.waits(1, "NCCL id", kStart + seconds(30));
  for (int s = 1; s < 600; ++s) {  // rank 2 gets on, and on
    all_heard(watch, kStart + seconds(s));
    watch.beat(2, s, Milliseconds(0), "compiles", kStart + seconds(s));
    REQUIRE_FALSE(watch.overdue(kStart + seconds(s)));
  }
  all_heard(watch, kStart + seconds(600));
  const auto failure = watch.overdue(kStart + seconds(600));
  REQUIRE(failure);
  CHECK(failure->text() == "rank 2 did not come to 'NCCL id' within 600.0 s; its last operation: compiles");
  watch.met(kStart + seconds(600));
  CHECK_FALSE(watch.overdue(kStart + seconds(600)));
}

TEST_CASE("nobody is to blame for the watcher's own pause") {
  Watch watch = joined();
  watch.paused(Milliseconds(100'000));
  CHECK_FALSE(watch.overdue(kStart + seconds(103)));
  CHECK(watch.overdue(kStart + seconds(104)));
}
