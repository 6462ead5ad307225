// Memory laid over the host and over the GPU, phase by phase.
#include "viz/scene/memory_clock.hpp"

#include "tests/catch.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "viz/scene/window.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

/// A snapshot of steps of 30 us, and a trace of one step whose host takes 60 us and whose GPU runs 100 us behind.
Run imported() {
  Run run;
  run.info.kind = RunKind::imported;
  MemoryScript memory(run);
  for (int step = 0; step < 2; ++step) {
    const std::int64_t t = 1000 + step * 100;
    run.steps.push_back({Recording::snapshot, step, us(t), us(t + 30), {}, {}, 0, 0});
    run.phases.push_back({step, Recording::snapshot, "forward", us(t + 1), us(t + 10)});
    run.phases.push_back({step, Recording::snapshot, "backward", us(t + 10), us(t + 29)});
    memory.free(us(t + 25), memory.alloc(us(t + 5), kMiB, MemoryCategory::activations));
  }
  run.steps.push_back({Recording::trace, 7, us(0), us(60), us(290), {}, 0, 0});
  run.phases.push_back({7, Recording::trace, "forward", us(0), us(20)});
  run.phases.push_back({7, Recording::trace, "backward", us(20), us(55)});
  for (const auto& [issue, start, end] : {std::array{1, 101, 150}, std::array{19, 160, 180}, std::array{30, 200, 290}})
    run.device_ops.push_back(kernel(kComputeStream, us(issue), us(start), us(end), KernelClass::gemm));
  return run;
}

std::vector<std::pair<std::int64_t, std::int64_t>> knots_of(const Window& window) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const ClockKnot& knot : window.memory->knots) out.emplace_back(knot.memory.count / 1000, knot.axis.count / 1000);
  return out;
}

}  // namespace

TEST_CASE("an import's memory stands over the same phases of the GPU") {
  const Run run = imported();
  const auto window = choose_window(run, {});
  REQUIRE(window);
  CHECK(window->memory_over == MemoryOver::gpu);
  CHECK(knots_of(*window) == std::vector<std::pair<std::int64_t, std::int64_t>>{{1100, 101}, {1110, 200}, {1130, 290}});
  CHECK(window->memory->place(us(1110)) == us(200));
  CHECK(window->memory->place(us(1120)) == us(245));
  CHECK(window->memory->place(us(1090)) == us(91));   // the step before runs as recorded
  CHECK(window->memory->place(us(1140)) == us(300));  // as does what follows
  CHECK(window->to == us(290));
  CHECK(clock_note(*window) ==
        "two recordings, phase by phase: memory of step 1 (snapshot) over step 7 on the GPU (trace)");
}

TEST_CASE("steps that differ are said to") {
  Run run = imported();
  run.measured.emplace();
  run.measured->cycle = 3;
  CHECK(clock_note(*choose_window(run, {})).ends_with("(trace); the run's steps differ"));
}

TEST_CASE("and over those of the host") {
  const Run run = imported();
  const Window window = with_memory_over(run, *choose_window(run, {}), MemoryOver::host);
  CHECK(knots_of(window) == std::vector<std::pair<std::int64_t, std::int64_t>>{{1100, 0}, {1110, 20}, {1130, 60}});
}

TEST_CASE("without device ops of the step, memory is laid over the host") {
  Run run = imported();
  for (DeviceOpRecord& op : run.device_ops) op.stream = StreamId{3};
  CHECK(choose_window(run, {})->memory_over == MemoryOver::host);
}

TEST_CASE("on one clock memory is as recorded, or over the GPU when that is asked for") {
  const Run run = small_run();
  const auto window = choose_window(run, {});
  REQUIRE(window);
  CHECK(window->memory->knots.empty());
  CHECK(clock_note(*window).empty());
  const Window over = with_memory_over(run, *window, MemoryOver::gpu);
  REQUIRE(over.memory->knots.size() > 2);
  for (std::size_t i = 1; i < over.memory->knots.size(); ++i) {
    CHECK(over.memory->knots[i - 1].memory < over.memory->knots[i].memory);
    CHECK(over.memory->knots[i - 1].axis < over.memory->knots[i].axis);
  }
}
