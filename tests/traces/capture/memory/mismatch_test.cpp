// Recordings that are not of the settings and units given: the error says what was expected and what was found.
#include "tests/core/adapt/small_program.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/capture/capture.hpp"
#include "traces/capture/capture_events.hpp"

namespace foreshard::traces::test {
namespace {

using foreshard::test::four_gpus;
using foreshard::test::small_units;
using foreshard::test::small_workload;

Settings recorded_settings() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

/// The message of a capture of the recording at recorded_settings() that claims other settings or units.
std::string refused(const Settings& claimed, const std::vector<Unit>& units = small_units(3),
                    bool requires_grad_known = false) {
  static const Snapshot snapshot = record(small_workload(recorded_settings(), 3), recorded_settings()).snapshot;
  const auto found = read_capture({.snapshot = snapshot,
                                   .initial_segments = {},
                                   .settings = claimed,
                                   .units = units,
                                   .sm_count = 132,
                                   .requires_grad_known = requires_grad_known});
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::mismatch);
  CHECK_FALSE(found.error().hint.empty());
  return found.error().text();
}

bool says(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  UNSCOPED_INFO("the message was: " << text);
  return false;
}

TEST_CASE("wrong settings name the buffer that FSDP2 would have asked for") {
  Settings s = four_gpus();
  CHECK(says(refused(s), "all-gather block of unit \"\""));  // no cast claimed: no flat buffer
  s = recorded_settings();
  s.gpus = 2;
  CHECK(says(refused(s), "flat cast buffer"));
  s = recorded_settings();
  s.reshard_after_forward = {Reshard::Kind::never, 0};
  CHECK(says(refused(s), "all-gather block of unit \"layers.2\""));
  s = recorded_settings();
  s.forward_prefetch = 2;
  CHECK(says(refused(s), "flat cast buffer of unit \"layers.1\""));
  s = recorded_settings();
  s.unshard_async = true;
  CHECK(says(refused(s), "flat cast buffer"));  // on another stream
  s = recorded_settings();
  s.reduce_dtype = {};
  CHECK(says(refused(s), "reduce-scatter input"));
  s = recorded_settings();
  s.offload = true;
  CHECK(says(refused(s), "offloaded shard"));
  s = recorded_settings();
  s.reshard_after_forward = {Reshard::Kind::group, 2};
  CHECK(says(refused(s), "post-forward clone"));
}

TEST_CASE("an error tells where: request, step, hook and unit") {
  Settings s = recorded_settings();
  s.reduce_dtype = {};
  const std::string text = refused(s);
  CHECK(says(text, "snapshot request "));
  CHECK(says(text, "step 0"));
  CHECK(says(text, "hook post_backward"));
  CHECK(says(text, "unit \"layers.2\""));
}

TEST_CASE("units that are not the recording's") {
  std::vector<Unit> renamed = small_units(3);
  renamed[2].name = "blocks.1";
  CHECK(says(refused(recorded_settings(), renamed), "layers.1"));
  std::vector<Unit> resized = small_units(3);
  resized[1].parameters[0].shape = {32, 4};
  CHECK(says(refused(recorded_settings(), resized), "unit \"layers.0\""));
  std::vector<Unit> fewer = small_units(2);
  CHECK(says(refused(recorded_settings(), fewer), "layers.2"));
}

TEST_CASE("units that say a reduced parameter is frozen are refused, with both sides") {
  std::vector<Unit> units = small_units(3);
  units[2].parameters[1].requires_grad = false;
  const std::string text = refused(recorded_settings(), units, true);
  CHECK(says(text, "the about file says requires_grad false of 'layers.1.b', but the recording reduces its gradient"));
}

TEST_CASE("a snapshot without steps says how to record one") {
  const Snapshot empty;
  const Settings settings = recorded_settings();
  const auto found = read_capture(
      {.snapshot = empty, .initial_segments = {}, .settings = settings, .units = small_units(1), .sm_count = 132});
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::mismatch);
  CHECK_FALSE(found.error().hint.empty());
}

TEST_CASE("requests are tied to their frees, and know whether they took a segment") {
  const auto event = [](AllocatorAction action, Address address, Bytes size, std::int64_t us) {
    return AllocatorEvent{action, address, size, 0, us};
  };
  const std::vector<AllocatorEvent> events{event(AllocatorAction::segment_alloc, 0x1000, 2 * kMiB, 10),
                                           event(AllocatorAction::alloc, 0x1000, 512, 11),
                                           event(AllocatorAction::alloc, 0x1200, 100, 12),
                                           event(AllocatorAction::free_requested, 0x1000, 512, 13),
                                           event(AllocatorAction::free_completed, 0x1000, 512, 14),
                                           event(AllocatorAction::alloc, 0x1000, 300, 15),
                                           event(AllocatorAction::free_requested, 0x9000, 7, 16)};
  const auto requests = capture_events(events, 10);
  REQUIRE(requests.size() == 5);
  CHECK((requests[0].new_segment && !requests[1].new_segment && !requests[3].new_segment));
  CHECK(requests[0].partner == 2);
  CHECK(requests[2].partner == 0);
  CHECK(requests[3].partner == CaptureEvent::kNone);  // never freed
  CHECK(requests[4].partner == CaptureEvent::kNone);  // older than the recording
  CHECK(requests[1].time.count == 2000);
}

}  // namespace
}  // namespace foreshard::traces::test
