#include "gpu/torch_collectives/progress_timers.hpp"

#include "tests/catch.hpp"

namespace foreshard::gpu {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kGather = 0;
constexpr std::uint32_t kScatter = 1;

/// A clock that the test turns, and what the timers of rank 0 say.
class Watched {
 public:
  GroupProgress now;

  /// After `time`, in looks of 50 ms, until something is wrong; returns the error's number, 0: nothing.
  int after(std::chrono::milliseconds time) {
    for (const auto end = time_ + time; time_ < end;) {
      time_ += 50ms;
      if (const auto kept = timers_.look(now, time_); !kept) {
        what = kept.error().what;
        return static_cast<int>(kept.error().kind);
      }
    }
    return 0;
  }
  std::string what;

 private:
  ProgressTimers::Time time_{1h};
  ProgressTimers timers_{0, {.timeout = 60s, .settle = 2s, .retries = 5s}};
};

TEST_CASE("a kind that waits is given up, whatever the other does") {
  for (const std::uint32_t kind : {kGather, kScatter}) {
    Watched idle;
    CHECK(idle.after(1h) == 0);
    idle.now.lanes[kind].issued = 1;
    CHECK(idle.after(59s) == 0);
    CHECK(idle.after(2s) == 15);  // the other has never been used, as in forward and in evaluation

    Watched busy;
    busy.now.lanes[kind] = {8, 7, false};
    int code = 0;
    for (int i = 0; i < 70 && code == 0; ++i) {  // the other goes on: a call ends each second
      ++busy.now.lanes[1 - kind].issued;
      ++busy.now.lanes[1 - kind].done;
      code = busy.after(1s);
    }
    CHECK(code == 15);
  }
}

TEST_CASE("what is given up is said") {
  Watched gather;
  gather.now.lanes[kGather].issued = 1;
  REQUIRE(gather.after(61s) == 15);
  CHECK(gather.what == "rank 0 waits for 60 s in an all-gather");
  Watched scatter;
  scatter.now.lanes[kScatter].issued = 1;
  REQUIRE(scatter.after(61s) == 15);
  CHECK(scatter.what == "rank 0 waits for 60 s in a reduce-scatter");
}

TEST_CASE("calls that end, and the end of all of them, begin the time anew") {
  Watched watched;
  LaneProgress& lane = watched.now.lanes[kGather];
  lane.issued = 100;
  for (lane.done = 0; lane.done < 99; ++lane.done) REQUIRE(watched.after(50s) == 0);
  lane.done = 100;
  CHECK(watched.after(10min) == 0);
  lane.issued = 101;
  CHECK(watched.after(59s) == 0);
  lane.issued = 102;  // more calls are not progress
  CHECK(watched.after(2s) == 15);
}

TEST_CASE("counts may run over") {
  Watched watched;
  watched.now.lanes[kScatter] = {0, 0xffff'ffff, false};
  CHECK(watched.after(30s) == 0);
  watched.now.lanes[kScatter].done = 0;
  CHECK(watched.after(10min) == 0);
}

TEST_CASE("a replay has no timeout, and is waited for in vain when a rank has ended") {
  Watched watched;
  watched.now.lanes[kGather].replaying = true;
  CHECK(watched.after(1h) == 0);
  watched.now.gone = 3;
  CHECK(watched.after(2s) == 0);
  CHECK(watched.after(100ms) == 14);
  CHECK(watched.what == "rank 3 of the group has ended while rank 0 waits for it in a collective");
}

TEST_CASE("a rank that has ended is no matter where nothing waits") {
  Watched watched;
  watched.now.gone = 1;
  CHECK(watched.after(1h) == 0);
  watched.now.lanes[kGather].issued = 1;
  CHECK(watched.after(1500ms) == 0);
  watched.now.lanes[kGather].done = 1;  // it had finished its part
  CHECK(watched.after(1h) == 0);
  watched.now.lanes[kScatter].issued = 1;
  CHECK(watched.after(1900ms) == 0);
  CHECK(watched.after(200ms) == 14);
}

TEST_CASE("a program that goes on calling after a death is ended") {
  Watched watched;
  watched.now.gone = 1;
  watched.now.refused = 1;
  CHECK(watched.after(4900ms) == 0);
  watched.now.refused = 2;
  CHECK(watched.after(50ms) == 0);
  CHECK(watched.after(1h) == 0);  // it has stopped
  watched.now.refused = 3;
  CHECK(watched.after(50ms) == 14);
  CHECK(watched.what == "rank 1 of the group has ended, and rank 0 still calls collectives 5 s later");
}

}  // namespace
}  // namespace foreshard::gpu
