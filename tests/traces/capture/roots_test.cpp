// Two FSDP2 roots in one recording, told by the streams that they gather on.
#include "traces/capture/roots.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// Forwards and backwards of roots, each with a gather of two units.
class Script {
 public:
  void forward(std::uint64_t stream, const std::vector<std::string_view>& units) {
    add("FSDP::root_pre_forward");
    for (const std::string_view unit : units) {
      add(unit);
      // A user's request of the same time, the flat cast buffer, the block.
      events.push_back({.size = 8, .stream = 0, .time = ranges.back().start});
      events.push_back({.size = 100, .stream = stream, .time = ranges.back().start});
      events.push_back({.size = 400, .stream = stream, .time = ranges.back().end});
    }
  }
  void backward() { add("FSDP::pre_backward"); }

  std::vector<CaptureEvent> events;
  std::vector<Range> ranges;

 private:
  void add(std::string_view name) {
    now_ += 100;
    ranges.push_back({name, {now_}, {now_ + 50}});
  }
  std::int64_t now_ = 0;
};

const std::vector<std::string_view> kUnits{"FSDP::all_gather", "FSDP::all_gather (layers.0)",
                                           "FSDP::all_gather (layers.1)"};

TEST_CASE("a teacher and its student gather on streams of their own") {
  Script script;
  for (int step = 0; step < 2; ++step) {
    script.forward(7, kUnits);
    script.forward(9, {"FSDP::all_gather (blocks.0)"});
    script.backward();
  }
  const std::string text = two_roots(script.events, script.ranges);
  CHECK(text.find("that of 'layers.0' and 2 more units, and that of 'blocks.0'") != std::string::npos);
  Script last;  // the recording ends there
  last.forward(7, kUnits);
  last.forward(9, kUnits);
  CHECK_FALSE(two_roots(last.events, last.ranges).empty());
}

TEST_CASE("forwards of one root share its stream, whatever comes between") {
  Script evaluates;
  for (int step = 0; step < 2; ++step) {
    evaluates.forward(7, kUnits);
    evaluates.backward();
    evaluates.forward(7, kUnits);  // a validation, in which units that were kept are not gathered
    evaluates.forward(7, {});
  }
  CHECK(two_roots(evaluates.events, evaluates.ranges).empty());
  Script async;  // gathers on the compute stream
  async.forward(0, kUnits);
  async.forward(0, kUnits);
  CHECK(two_roots(async.events, async.ranges).empty());
  Script other;  // another stream behind a backward: the same root may be given another
  other.forward(7, kUnits);
  other.backward();
  other.forward(9, kUnits);
  CHECK(two_roots(other.events, other.ranges).empty());
  CHECK(two_roots({}, {}).empty());
}

}  // namespace
}  // namespace foreshard::traces
