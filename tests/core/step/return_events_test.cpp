// Answers to the allocator's event queries: a recording's as far as it goes, the device's from there on.
#include "core/step/return_events.hpp"

#include "tests/catch.hpp"
#include "tests/contract/scripted_device.hpp"

namespace foreshard::test {
namespace {

struct Fixture {
  RecordedReturns recorded{2, {{1, 2}}};  // two frees; the second's block is back at allocation 2
  ScriptedDevice device;
  StreamId stream = device.create_stream({"all-gather", -1});

  EventId free(ReturnEvents& events) {
    events.next_free();
    return events.record_event(stream);
  }
};

TEST_CASE("a block comes back at the allocation that found it back in the recording") {
  Fixture f;
  ReturnEvents events(f.recorded, true, f.device);
  f.device.hold_events(true);  // the device alone would never give one back
  const EventId first = f.free(events);
  events.next_allocation();  // number 0
  CHECK(events.event_complete(first));
  const EventId second = f.free(events);
  CHECK_FALSE(events.event_complete(second));
  events.next_allocation();
  CHECK_FALSE(events.event_complete(second));
  events.next_allocation();
  CHECK(events.event_complete(second));
}

TEST_CASE("past the recording's last free the device answers") {
  Fixture f;
  ReturnEvents events(f.recorded, true, f.device);
  events.next_free();
  events.next_free();
  f.device.hold_events(true);
  const EventId third = f.free(events);
  events.next_allocation();
  CHECK_FALSE(events.event_complete(third));
  f.device.complete(third);
  CHECK(events.event_complete(third));
}

TEST_CASE("a real device is always asked") {
  Fixture f;
  ReturnEvents events(f.recorded, false, f.device);
  f.device.hold_events(true);
  const EventId first = f.free(events);
  events.next_allocation();
  CHECK_FALSE(events.event_complete(first));
}

TEST_CASE("what is asked of the allocator before the recording began does not count") {
  Fixture f;
  ReturnEvents events(f.recorded, true, f.device);
  for (int i = 0; i < 5; ++i) events.next_allocation();
  events.next_free();
  events.begin_recording();
  events.next_free();
  const EventId second = f.free(events);
  events.next_allocation();
  events.next_allocation();
  CHECK_FALSE(events.event_complete(second));
  events.next_allocation();
  CHECK(events.event_complete(second));
}

TEST_CASE("a synchronised event is complete for good") {
  Fixture f;
  ReturnEvents events(f.recorded, true, f.device);
  events.next_free();
  const EventId second = f.free(events);
  events.synchronize_event(second);
  CHECK(events.event_complete(second));
}

}  // namespace
}  // namespace foreshard::test
