#include "traces/import/norm_rows.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

using Requests = std::vector<std::vector<Bytes>>;

/// Steps of 100 ns, with a forward from 10 to 50 in each.
Hooks hooks_of(std::size_t steps) {
  Hooks hooks;
  for (std::size_t k = 0; k < steps; ++k) {
    const auto at = static_cast<std::int64_t>(100 * k);
    hooks.steps.push_back({.index = static_cast<std::int32_t>(k),
                           .begin = {at},
                           .end = {at + 100},
                           .complete = true,
                           .first = 2 * k,
                           .count = 2});
    hooks.places.push_back({.hook = Hook::forward_begin, .unit = {}, .time = {at + 10}});
    hooks.places.push_back({.hook = Hook::forward_end, .unit = {}, .time = {at + 50}});
  }
  return hooks;
}

void expect_other_size(const std::vector<NormRows>& profiled, const Requests& requests) {
  const auto same = check_norm_rows(profiled, requests, "step.json", "step.pickle");
  REQUIRE_FALSE(same);
  CHECK(same.error().kind == ErrorKind::mismatch);
  CHECK(same.error().where == "step.json");
  INFO(same.error().what);
  CHECK(same.error().what.find("2 layer norms of 512 rows, but none in step.pickle") != std::string::npos);
}

}  // namespace

TEST_CASE("a norm's rows are the grid of its kernel, of the forward's kernels alone") {
  Run run;
  const LabelId norm = run.labels.intern("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>");
  const LabelId other = run.labels.intern("void at::native::elementwise_kernel<128, 4>");
  const auto launch = [&](LabelId label, std::int64_t issue) {
    DeviceOpRecord op;
    op.label = label;
    op.issue = {issue};
    op.grid = {512, 1, 1};
    run.device_ops.push_back(op);
  };
  launch(norm, 20);
  launch(other, 21);
  launch(norm, 50);
  launch(norm, 60);  // made again in backward
  launch(norm, 120);
  CHECK(norm_rows(run, hooks_of(2)) == std::vector<NormRows>{{{512, 2}}, {{512, 1}}});
}

TEST_CASE("requests of a forward are those between its hooks") {
  std::vector<CaptureEvent> events;
  for (const std::int64_t time : {5, 10, 30, 60, 130})
    events.push_back({.size = static_cast<Bytes>(time), .time = {time}});
  events.push_back({.allocates = false, .size = 7, .time = {140}});
  CHECK(forward_requests(events, hooks_of(2)) == Requests{{10, 30}, {130}});
}

TEST_CASE("each norm of a forward requests its statistics") {
  const std::vector<NormRows> profiled{{{512, 2}}, {{512, 2}}};
  CHECK(check_norm_rows(profiled, Requests{{2048, 64, 2048}}, "step.json", "step.pickle"));
  expect_other_size(profiled, {{32768, 64, 32768}});
  expect_other_size(profiled, {{2048, 64, 32768}});  // one request of these bytes is another's
  // A first step may request more; one that fits is enough.
  expect_other_size(profiled, {{1, 8192}, {8192}, {8192}});
  CHECK(check_norm_rows(profiled, Requests{{8192}, {2048, 2048}}, "step.json", "step.pickle"));
}

TEST_CASE("steps that differ among themselves are not held against each other") {
  CHECK(check_norm_rows(std::vector<NormRows>{{{512, 2}}, {{256, 2}}}, Requests{{8192}}, "step.json", "step.pickle"));
  CHECK(check_norm_rows(std::vector<NormRows>{{{512, 2}}}, Requests{{1}, {8192}, {4096}}, "step.json", "step.pickle"));
  CHECK(check_norm_rows({}, Requests{{8192}}, "step.json", "step.pickle"));
  CHECK(check_norm_rows(std::vector<NormRows>{{{512, 2}}}, {}, "step.json", "step.pickle"));
}
