// Another optimizer than the workload's: its times are those of a workload that was made with it.
#include "sim/predict/price_optimizer.hpp"

#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

using namespace foreshard;
using namespace foreshard::sim;

namespace {

Workload llama(Optimizer optimizer) {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = 4;
  settings.batch = 1;
  settings.seq = 512;
  settings.param_dtype = DType::bfloat16;
  settings.optimizer = optimizer;
  return generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu()).value();
}

Prediction planned(const Workload& workload, const MachineProfile& machine, Optimizer optimizer) {
  Settings wanted = workload.settings;
  wanted.optimizer = optimizer;
  const auto p = predict(workload, machine, {wanted, {}});
  REQUIRE(p);
  return *p;
}

}  // namespace

TEST_CASE("an exchanged optimizer takes what it takes in a workload that has it", "[price_optimizer]") {
  const MachineProfile machine = builtin_profile("h200").value();
  const Workload adam = llama(Optimizer::adam);
  for (const Optimizer other : {Optimizer::sgd, Optimizer::adam_fused, Optimizer::adam_single}) {
    const Prediction exchanged = planned(adam, machine, other);
    const Prediction own = planned(llama(other), machine, other);
    CHECK(exchanged.has_time);
    CHECK(exchanged.time_unknown.empty());
    CHECK(exchanged.step_ms == own.step_ms);
    CHECK(exchanged.peaks == own.peaks);
    CHECK(exchanged.step_ms != planned(adam, machine, Optimizer::adam).step_ms);
  }
}

TEST_CASE("host times of the profile are not scaled as recorded ones are", "[price_optimizer]") {
  const MachineProfile machine = builtin_profile("h200").value();
  Workload workload = llama(Optimizer::adam);
  Settings wanted = workload.settings;
  wanted.optimizer = Optimizer::sgd;
  const auto priced = price_optimizer(workload, wanted, machine, 0.5);
  REQUIRE(priced);
  Nanoseconds host;
  for (const SectionCost& section : workload.sections)
    if (section.section == Section::optimizer)
      for (const SectionItem& item : section.items) host += item.host_before;
  CHECK(host == priced->host.scaled(2));
  CHECK(priced->kernels.count > 0);
}

TEST_CASE("where the times of another optimizer are not known there is no step", "[price_optimizer]") {
  MachineProfile no_calls = builtin_profile("h200").value();
  no_calls.host_calls_known = false;
  const Prediction p = planned(llama(Optimizer::adam), no_calls, Optimizer::sgd);
  CHECK_FALSE(p.has_time);
  CHECK_FALSE(p.valid);
  CHECK(p.interval.rests_on.empty());
  REQUIRE(p.time_unknown.size() == 1);
  CHECK(p.time_unknown.front().starts_with("the recording's optimizer is adam, and the machine profile h200"));
}

TEST_CASE("host times of another program price no optimizer", "[price_optimizer]") {
  MachineProfile machine = builtin_profile("h200").value();
  machine.host_calls.program = Lowering::foreshard;
  const Prediction p = planned(llama(Optimizer::adam), machine, Optimizer::sgd);
  REQUIRE(p.time_unknown.size() == 1);
  CHECK(p.time_unknown.front().find("are of foreshard's program, not of the recording's") != std::string::npos);
}
