// The time of any plan explained: its parts add up, and its sums are the plan's own.
#include "core/explain_time/time_explanation.hpp"
#include "sim/predict/predict.hpp"
#include "tests/core/explain_time/time_parts.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::test {
namespace {

TEST_CASE("what a plan says of its step is what is explained of it") {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const bool holds = rc::check("step, compute and exposed communication are plan's, and the parts are the rest", [&] {
    const Workload w = timed_workload(random_settings(), *rc::gen::inRange(1U, 5U), *rc::gen::element(0.0, 3.0, 30.0));
    const auto p = sim::predict(w, *machine, {random_settings(), {}, 4});
    RC_ASSERT(p.has_value());
    const auto e = explain_time(p->run);
    RC_ASSERT(e.has_value());
    RC_ASSERT(time_parts_fault(p->run, *e) == "");
    RC_ASSERT(e->length().ms() == p->step_ms);
    RC_ASSERT(e->compute.ms() == p->compute_ms);
    RC_ASSERT(e->communication.ms() == p->communication_ms);
    RC_ASSERT(e->exposed_communication.ms() == p->exposed_communication_ms);
    for (const IdlePart& part : e->parts) RC_ASSERT(part.cause != IdleCause::late_rank);  // one rank stands for all
    for (const StepRecord& step : p->run.steps)
      if (const auto any = explain_time(p->run, step.index)) RC_ASSERT(time_parts_fault(p->run, *any) == "");
  });
  CHECK(holds);
}

}  // namespace
}  // namespace foreshard::test
