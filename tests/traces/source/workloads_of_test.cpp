#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "traces/source/source.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

}  // namespace

TEST_CASE("generated workloads have the settings asked for, and are made once for what shapes them") {
  const auto source = read_source({"mlp", 512, 2});
  REQUIRE(source);
  const auto workloads = workloads_of(*source, machine());
  CHECK_FALSE(workloads->one_for_all());
  Settings settings = source->settings;
  settings.gpus = 4;
  const auto first = workloads->at(settings);
  REQUIRE(first);
  CHECK((*first)->settings == settings);
  settings.forward_prefetch = 2;
  const auto second = workloads->at(settings);
  REQUIRE(second);
  CHECK((*second)->settings == settings);
  CHECK((*second)->steps[0].ops.size() == (*first)->steps[0].ops.size());
  settings.batch = 8;
  CHECK((*workloads->at(settings))->settings.batch == 8U);
  CHECK(sim::from_model(**first));
}

TEST_CASE("a plan from a model has times, and no calibration to miss") {
  const auto source = read_source({"mlp", 1024, 2});
  REQUIRE(source);
  Settings settings = source->settings;
  settings.gpus = 4;
  const auto workload = workloads_of(*source, machine())->at(settings);
  REQUIRE(workload);
  const auto p = sim::predict(**workload, machine(), {settings, {}});
  REQUIRE(p);
  CHECK(p->has_time);
  CHECK(p->step_ms > 0);
  CHECK(p->uncertainty > 0);
  CHECK(p->calibration.source == sim::Calibration::Source::none);
  for (const std::string& warning : p->warnings) CHECK(warning.find("unprofiled") == std::string::npos);
}

TEST_CASE("a model needs the host's costs") {
  sim::MachineProfile bare = machine();
  bare.host_calls_known = false;
  const auto source = read_source({"mlp", 512, 2});
  REQUIRE(source);
  const auto refused = workloads_of(*source, bare)->at(source->settings);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().hint.find("/host/calls") != std::string::npos);
}
