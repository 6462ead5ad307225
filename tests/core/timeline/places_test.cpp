#include "core/timeline/places.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("device ops of an import get the unit whose range, forward or backward their call lies in") {
  Run run;
  run.info.kind = RunKind::imported;
  for (const char* name : {"", "layers.0", "layers.1"}) run.units.emplace_back().name = name;
  const auto range = [&](const char* name, std::int64_t start, std::int64_t end) {
    HostOpRecord& op = run.host_ops.emplace_back();
    op.kind = HostOpRecord::Kind::annotation;
    op.label = run.labels.intern(name);
    op.start = {start};
    op.end = {end};
  };
  run.phases.push_back({0, Recording::trace, "forward", {0}, {100}});
  run.phases.push_back({0, Recording::trace, "optimizer", {200}, {300}});
  range("FSDP::pre_forward (layers.0)", 10, 14);
  range("FSDP::all_gather (layers.1)", 11, 13);
  range("FSDP::post_forward (layers.0)", 40, 44);
  range("FSDP::pre_forward (layers.7)", 60, 64);
  const auto issued = [&](std::int64_t at) {
    DeviceOpRecord& op = run.device_ops.emplace_back();
    op.issue = op.start = {at};
    op.end = {at + 1};
  };
  for (const std::int64_t at : {5, 12, 20, 50, 70, 250}) issued(at);
  place_units(run);
  const auto unit = [&](std::size_t op) { return run.device_ops[op].unit; };
  CHECK(unit(0) == UnitId{0});   // before the first range: the root's
  CHECK(unit(1) == UnitId{2});   // inside the gather of layers.1
  CHECK(unit(2) == UnitId{1});   // forward of layers.0
  CHECK(unit(3) == UnitId{0});   // after it
  CHECK_FALSE(unit(4).valid());  // a unit that the run does not list
  CHECK_FALSE(unit(5).valid());  // the optimizer
}

}  // namespace
}  // namespace foreshard
