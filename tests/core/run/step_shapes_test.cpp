// Which steps of a run are like work, by what its plan or import says of them.
#include "core/run/step_shapes.hpp"

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
