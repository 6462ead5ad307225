// What memory comes to in a longer run where blocks wait for the GPU, and whose host a plan has then.
#include "sim/predict/settled_memory.hpp"

#include <algorithm>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/plan_host.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

/// An MLP of large matrices on four GPUs, whose links set the step.
struct Planned {
  MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  Workload workload;

  explicit Planned(Release release = Release::record_stream, std::uint32_t launch_queue = 400) {
    settings.gpus = 4;
    settings.batch = 4;
    settings.release = release;
    machine.launch_queue = launch_queue;
    workload = generate(*preset("mlp"), settings, machine.host_calls, machine.gpu(), true).value();
    settings = workload.settings;
  }
  [[nodiscard]] SimulationRequest request(std::int32_t steps) const {
    SimulationRequest out;
    out.steps.steps = steps;
    out.steps.synchronized = 1;
    out.steps.record = false;
    return out;
  }
  [[nodiscard]] SettledMemory settled(double host_scale = 1, std::optional<Bytes> limit = {}) const {
    SimulationRequest wanted = request(4);
    wanted.memory_limit = limit;
    const auto found = settled_memory(workload, settings, machine, wanted, host_scale);
    REQUIRE(found);
    REQUIRE(*found);
    return **found;
  }
  [[nodiscard]] Bytes reserved_after(std::int32_t steps, double host_scale = 1) const {
    SimulationRequest wanted = request(steps);
    wanted.options.host_scale = host_scale;
    Run ignored;
    return simulate(workload, settings, machine, wanted, ignored).value().outcome.steps.back().peaks.reserved;
  }
  [[nodiscard]] Prediction plan(const HostScale& scale = {}, std::optional<Bytes> limit = {}) const {
    PredictRequest wanted{settings, limit, 4};
    wanted.host_scale = scale;
    return predict(workload, machine, wanted).value();
  }
};

TEST_CASE("memory under record_stream grows until the launch queue holds the host") {
  const Planned planned;
  const SettledMemory settled = planned.settled();
  CHECK(settled.reserved > planned.reserved_after(4));
  CHECK(settled.reserved == planned.reserved_after(40));
  CHECK(settled.step > 3);
  CHECK(planned.reserved_after(settled.step + 1) == settled.reserved);
  CHECK(planned.reserved_after(settled.step) < settled.reserved);
  CHECK_FALSE(settled.grows);
  CHECK_FALSE(settled.out_of_memory);
  CHECK(settled.steps == 0);
  const Planned shorter(Release::record_stream, 100);
  CHECK(shorter.settled().reserved < settled.reserved);
}

TEST_CASE("without a launch queue's end it is said to grow still") {
  Planned endless(Release::record_stream, 0);
  endless.machine.memory_total *= 8;
  const SettledMemory settled = endless.settled();
  CHECK(settled.grows);
  CHECK(settled.reserved > Planned().settled().reserved);
}

TEST_CASE("a host that the GPU waits for lets nothing pile up") {
  const Planned planned;
  const SettledMemory settled = planned.settled(4);
  CHECK(settled.reserved == planned.reserved_after(4, 4));
  CHECK_FALSE(settled.grows);
}

TEST_CASE("a limit that is met on the way costs retries, in a mean step that is longer") {
  const Planned planned;
  const SettledMemory roomy = planned.settled();
  const SettledMemory tight = planned.settled(1, (planned.reserved_after(4) + roomy.reserved) / 2);
  CHECK(tight.reserved < roomy.reserved);
  CHECK(tight.first_retry > 3);
  CHECK(tight.num_alloc_retries > 0);
  CHECK(tight.steps > 1);
  CHECK(tight.step_time.ms() > planned.plan().step_ms);
}

TEST_CASE("a plan counts retries of a longer run, whose mean step is anchored as its own") {
  const Planned planned;
  const Bytes limit = (planned.reserved_after(4) + planned.settled().reserved) / 2;
  const Prediction p = planned.plan({}, limit);
  CHECK(p.num_alloc_retries == 0);
  CHECK(keeps_retrying(p));
  CHECK(most_reserved(p) == p.settled->reserved);
  HostScale anchored;
  anchored.anchor = 1.02;
  const Prediction longer = planned.plan(anchored, limit);
  CHECK(longer.step_ms == Approx(1.02 * p.step_ms));
  CHECK(longer.settled->step_time.ms() == Approx(1.02 * p.settled->step_time.ms()));
  CHECK(lasting_step_ms(p) == p.settled->step_time.ms());
  CHECK(lasting_step_ms(p) > p.step_ms);
}

TEST_CASE("a plan says what a longer run reserves; one whose blocks wait for nothing does not") {
  const Planned planned;
  const Prediction p = planned.plan();
  REQUIRE(p.settled);
  CHECK(p.settled->reserved == planned.settled().reserved);
  CHECK(p.peaks.reserved < p.settled->reserved);
  CHECK_FALSE(Planned(Release::automatic).plan().settled);
}

TEST_CASE("a host that recording slowed counts for memory as long as it does not set the step") {
  const Planned planned;
  const double step = planned.plan().step_ms;
  HostScale slowed;
  slowed.recorded_factor = 1.44;  // a fifth slower in the mean: the GPU still sets the step
  const auto host_of = [&](const HostScale& scale) {
    return host_of_plan(planned.workload, planned.settings, planned.machine, planned.request(4), scale).value();
  };
  CHECK(host_of(slowed) == Approx(1.2));
  CHECK(planned.plan(slowed).step_ms == Approx(step).epsilon(0.003));
  slowed.recorded_factor = 16;  // four times: no training has that step
  CHECK(host_of(slowed) == 1);
  CHECK(planned.plan(slowed).step_ms == step);
}

}  // namespace
}  // namespace foreshard::sim
