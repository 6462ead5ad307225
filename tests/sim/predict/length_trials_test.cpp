// Ranks of a model that draw the length of their samples for each step.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/engine/spread.hpp"
#include "sim/predict/drawn_lengths.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

/// llama-1b on one node of eight whose ranks draw one of `lengths`, each as often, or the longest where nothing else is
/// said.
struct Drawn {
  test::PlannedLlama job = test::llama_on_nodes("h200", 1, 1, 4);

  explicit Drawn(std::vector<std::uint32_t> lengths, std::uint32_t trials = 12) {
    const auto at = [this](std::uint32_t length) -> Result<std::shared_ptr<const Workload>> {
      Settings settings = job.request.settings;
      settings.seq = length;
      auto made = generate(*preset("llama-1b"), settings, job.machine.host_calls, job.machine.gpu(), true);
      FORESHARD_TRY(made);
      return std::make_shared<const Workload>(std::move(*made));
    };
    job.request.settings.seq = lengths.back();
    job.workload = **at(lengths.back());
    job.request.trials.emplace();
    job.request.trials->trials = trials;
    DrawnLengths drawn;
    drawn.said = "test";
    drawn.lengths = lengths;
    drawn.draw = [lengths](std::uint64_t key, std::size_t step) { return lengths[mixed(key, step) % lengths.size()]; };
    drawn.program = at;
    job.request.lengths = std::move(drawn);
  }
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;

  Prediction plan() {
    auto p = job.plan();
    INFO((p ? "" : p.error().text()));
    REQUIRE(p);
    return std::move(*p);
  }
};

}  // namespace

TEST_CASE("one length drawn by all is the job of that length, to the nanosecond") {
  const Prediction p = Drawn({1024}).plan();
  REQUIRE(p.trials);
  REQUIRE(p.trials->lengths);
  for (const double step : p.trials->steps_ms) CHECK(step == p.step_ms);
  CHECK(p.trials->lengths->equal_step_ms == p.step_ms);
  CHECK(p.trials->lengths->equal == 1024);
  CHECK(p.trials->lengths->work == p.work);
  CHECK(p.trials->waiting_ms.most == 0);
}

TEST_CASE("drawn lengths take nearly what the longest do, and cost more than equal ones") {
  const double shortest = Drawn({512}).plan().step_ms;
  Drawn job({512, 1024, 2048}, 40);
  const Prediction p = job.plan();
  REQUIRE(p.trials);
  CHECK(p.longest_drawn == 2048);
  // Hosts bind the shortest, and a step behind a longer one, in which they ran ahead, may be shorter still.
  CHECK(p.trials->step_ms.mean > shortest);
  CHECK(p.trials->step_ms.most < 1.001 * p.step_ms);  // beside collectives that stand a little longer
  // Of eight ranks the longest is mostly drawn by some: nearly its whole step.
  CHECK(p.trials->step_ms.median > 0.95 * p.step_ms);
  const LengthTimes& of = *p.trials->lengths;
  CHECK(of.mean > 1000);
  CHECK(of.mean < 1400);
  CHECK(of.equal_step_ms < 0.75 * p.trials->step_ms.mean);
  // As wide as the plan's own interval.
  CHECK(of.low_ms < p.trials->step_ms.mean);
  CHECK(of.low_ms / p.trials->step_ms.mean == Approx(p.interval.low_ms / p.step_ms));
  CHECK(of.high_ms / p.trials->step_ms.mean == Approx(p.interval.high_ms / p.step_ms));
  CHECK(p.trials->waiting_ms.mean > 0);
  CHECK(p.trials->last.empty());
  // Everything else is of the longest.
  const Prediction longest = Drawn({2048}).plan();
  CHECK(p.step_ms == longest.step_ms);
  CHECK(p.peaks.reserved == longest.peaks.reserved);
  // The same numbers on any number of threads; with another seed others.
  job.job.request.trials->threads = 3;
  CHECK(job.plan().trials->steps_ms == p.trials->steps_ms);
  job.job.request.trials->seed = 1;
  CHECK(job.plan().trials->steps_ms != p.trials->steps_ms);
}

TEST_CASE("chance in times comes on top of drawn lengths") {
  Drawn job({1024, 2048});
  const Prediction p = job.plan();
  job.job.request.trials->jitter.gpus = {Spread::Kind::normal, 0.02};
  const Prediction with = job.plan();
  CHECK(with.trials->lengths->mean == p.trials->lengths->mean);  // the same lengths
  CHECK(with.trials->lengths->equal_step_ms == p.trials->lengths->equal_step_ms);
  CHECK(with.trials->step_ms.mean > p.trials->step_ms.mean);
}

}  // namespace foreshard::sim
