// Which frees of a recording came back late, and when.
#include "traces/capture/recorded_returns.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces::test {
namespace {

using Action = AllocatorAction;

RecordedReturns returns(const std::vector<std::pair<Action, Address>>& entries) {
  std::vector<AllocatorEvent> events;
  for (const auto& [action, address] : entries) events.push_back({action, address, 512, 0, 0});
  return recorded_returns(events);
}

TEST_CASE("a free that completes before the next allocation is not late") {
  const RecordedReturns r = returns({{Action::alloc, 1}, {Action::free_requested, 1}, {Action::free_completed, 1}});
  CHECK(r.frees == 1);
  CHECK(r.late.empty());
}

TEST_CASE("late frees are listed by their number, with the allocation that found them back") {
  const RecordedReturns r = returns({{Action::alloc, 1},
                                     {Action::alloc, 2},
                                     {Action::free_requested, 1},  // number 0
                                     {Action::free_requested, 2},  // number 1
                                     {Action::alloc, 3},           // number 2
                                     {Action::free_completed, 2},  // while number 3 is being served
                                     {Action::alloc, 2},
                                     {Action::alloc, 4},
                                     {Action::free_completed, 1}});
  CHECK(r.frees == 2);
  CHECK(r.late == std::vector<RecordedReturns::Late>{{0, 5}, {1, 3}});
}

TEST_CASE("what never comes back is back after the last allocation") {
  const RecordedReturns r = returns({{Action::alloc, 1}, {Action::free_requested, 1}, {Action::alloc, 2}});
  CHECK(r.late == std::vector<RecordedReturns::Late>{{0, 2}});
}

TEST_CASE("a completion without its free is older than the recording") {
  const RecordedReturns r = returns({{Action::free_completed, 7}, {Action::alloc, 1}});
  CHECK(r.frees == 1);  // it is freed at the beginning
  CHECK(r.late.empty());
}

TEST_CASE("blocks that were freed before the recording are freed in front of it") {
  std::vector<AllocatorEvent> events;
  for (const auto& [action, address] : {std::pair{Action::alloc, Address{1}},
                                        {Action::free_completed, Address{7}},
                                        {Action::free_requested, Address{1}},
                                        {Action::free_completed, Address{1}}}) {
    AllocatorEvent event;
    event.action = action;
    event.address = address;
    event.time_us = 5;
    events.push_back(event);
  }
  const auto requests = capture_events(events, 5);
  REQUIRE(requests.size() == 3);
  CHECK_FALSE(requests[0].allocates);
  CHECK(requests[0].address == 7);
  CHECK(requests[0].partner == CaptureEvent::kNone);
  CHECK(requests[0].time < requests[1].time);
  CHECK(requests[1].partner == 2);
  CHECK_FALSE(requests[2].late);
}

}  // namespace
}  // namespace foreshard::traces::test
