// Which steps of a run are like work, by what its plan or import says of them.
#include "core/run/step_shapes.hpp"

#include "core/run/plan_results.hpp"
#include "core/run/steady_step.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

Run recorded(const std::string& shapes, std::uint32_t cycle) {
  Run run;
  run.info.kind = RunKind::imported;
  run.settings.batch = 4;
  run.settings.seq = 2048;
  run.measured = Measured{{9, 9, 5, 6, 7, 6}, {}, cycle};
  run.results[kStepShapes] = shapes;
  return run;
}

}  // namespace

TEST_CASE("steps that do not differ are all of the settings' shape") {
  Run run;
  run.settings.batch = 4;
  const StepShapes shapes(run);
  CHECK_FALSE(shapes.differ());
  CHECK(shapes.of(Recording::run, 7) == StepShape{4, 1});
  CHECK(shapes.of_mean() == std::vector<StepShape>{{4, 1}});
  CHECK(shape_words(shapes.of_mean()) == "4 samples a GPU");
  run.settings.batch.reset();
  CHECK(StepShapes(run).of_mean().empty());
}

TEST_CASE("a recording's shapes are read back as import writes them, by recording and step") {
  const std::string text = step_shapes_text({{4, 2048}, {4, 1536}, {4, 1024}, {4, 1536}}, {{}, {4, 1536}});
  CHECK(text == R"({"snapshot":[[4,2048],[4,1536],[4,1024],[4,1536]],"trace":[null,[4,1536]]})");
  const StepShapes shapes(recorded(text, 3));
  CHECK(shapes.differ());
  CHECK(shapes.of(Recording::snapshot, 0) == StepShape{4, 2048});
  CHECK_FALSE(shapes.of(Recording::trace, 0).known());
  CHECK(shapes.of(Recording::trace, 1) == StepShape{4, 1536});
  CHECK_FALSE(shapes.of(Recording::trace, 2).known());
  CHECK_FALSE(shapes.of(Recording::snapshot, -1).known());
  CHECK(shapes.of_mean() == std::vector<StepShape>{{4, 1024}, {4, 1536}, {4, 1536}});  // the last cycle
  CHECK(shape_words(shapes.of_mean()) == "4 × 1536 and 4 × 1024 tokens a GPU");
  CHECK(shapes.words_of(Recording::snapshot, 1) == "4 × 1536 tokens a GPU; others are of 4 × 2048 and 4 × 1024");
  CHECK(shapes.words_of(Recording::trace, 1) == "4 × 1536 tokens a GPU, and others are of other sizes");
}

TEST_CASE("a recording whose steps differ and that does not say how has no shapes") {
  Run run = recorded("null", 3);
  const StepShapes shapes(run);
  CHECK(shapes.differ());
  CHECK(shapes.of_mean().empty());
  CHECK(shape_words(shapes.of(Recording::trace, 0)) == "a size that is not known");
  run.results[kStepShapes] = step_shapes_text({{4, 2048}, {}, {4, 1024}}, {});
  CHECK(StepShapes(run).of_mean().empty());  // one of the mean's is not known
}

TEST_CASE("a step time is of the last whole cycle with a step before it, and one behind it where there is room") {
  const auto mean = [](std::size_t count, std::size_t cycle) {
    const SteadyCycle of = steady_cycle(count, cycle);
    return std::pair(of.first(), of.last);
  };
  CHECK(mean(8, 4) == std::pair<std::size_t, std::size_t>{3, 6});
  CHECK(mean(8, 1) == std::pair<std::size_t, std::size_t>{6, 6});
  CHECK(mean(5, 4) == std::pair<std::size_t, std::size_t>{1, 4});  // none is behind the last
  CHECK(mean(3, 9) == std::pair<std::size_t, std::size_t>{1, 2});  // never the first
  CHECK(mean(1, 0) == std::pair<std::size_t, std::size_t>{0, 0});
  CHECK(mean(0, 2) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE("a plan's mean is of the steps that it says") {
  Run run;
  run.info.kind = RunKind::planned;
  run.results["steps"] = R"([{"batch":2,"seq":8},{"batch":2,"seq":4},{"batch":2,"seq":6},{"batch":2,"seq":4}])";
  run.results["cycle"] = "2";
  const StepShapes shapes(run);
  CHECK(shapes.of(Recording::run, 2) == StepShape{2, 6});
  CHECK(shapes.of_mean() == std::vector<StepShape>{{2, 4}, {2, 6}});
  run.results["cycle"] = "1";
  CHECK(StepShapes(run).of_mean() == std::vector<StepShape>{{2, 6}});  // the steady step
}

TEST_CASE("answers of a damaged store name no step and no rank that the run has not") {
  const char* const texts[] = {
      "",
      "null",
      "-1",
      "0",
      "1",
      "5",
      "1e300",
      "nan",
      "\"x\"",
      "[]",
      "{}",
      "[[]]",
      "18446744073709551615",
      "[null,{}]",
      "[{\"batch\":-1,\"seq\":1e30}]",
      "[[4,2048],[4]]",
      R"({"snapshot":[[4,2048],null,[1,2,3],"x"],"trace":7})",
      R"({"mean_seq":3,"told_rank":9,"groups":[{"seq":-3,"ranks":4294967295,"first_rank":9}]})",
      R"({"mean_seq":3,"groups":[{"seq":7,"ranks":1,"gemms":{"m":-1}},{"seq":"x","ranks":1}]})",
      R"({"mean_seq":3,"groups":[7]})"};
  for (const char* key : {"ranks", "steps", "cycle", kStepShapes, "out_of_memory", "out_of_memory_rank"})
    for (const char* text : texts)
      for (const RunKind kind : {RunKind::planned, RunKind::imported}) {
        CAPTURE(key, text, static_cast<int>(kind));
        Run run = recorded(step_shapes_text({{4, 2048}, {4, 1536}}, {{4, 1536}}), 2);
        run.info.kind = kind;
        run.settings.gpus = 2;
        run.results["steps"] = R"([{"batch":2,"seq":8},{"batch":2,"seq":4},{"batch":2,"seq":6}])";
        run.results["out_of_memory"] = std::string_view(key) == "out_of_memory_rank" ? "true" : "false";
        run.results[key] = text;
        for (std::int32_t i = 0; i < 3; ++i)
          run.steps.push_back({.recording = Recording::run,
                               .index = i,
                               .start = Nanoseconds{i},
                               .end = Nanoseconds{i + 1},
                               .device_end = Nanoseconds{i + 1},
                               .peaks = {}});
        const StepShapes shapes(run);
        CHECK(shapes.of_mean().size() <= 3);
        for (const StepShape& shape : shapes.of_mean()) CHECK(shape.known());
        for (const std::int32_t index : {-1, 0, 2, 3, INT32_MAX}) {
          CHECK_NOTHROW(shapes.of(Recording::run, index));
          CHECK_NOTHROW(shapes.of(Recording::snapshot, index));
        }
        for (const std::int32_t step : mean_steps(run)) CHECK((step >= 0 && step < 3));
        REQUIRE(memory_step(run));
        CHECK(memory_step(run)->index < 3);
        if (const auto rank = out_of_memory_rank(run)) CHECK(*rank == 1);
        for (const char* member : {"own_program", "seq", "gemms"}) CHECK(ranks_with(run, member).size() <= 2);
      }
}
