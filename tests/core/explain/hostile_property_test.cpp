// Runs whose events contradict one another: whatever they say, an answer comes, and its parts leave no remainder.
#include <rapidcheck.h>

#include "core/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain/recorded_program.hpp"

namespace foreshard {
namespace {

/// Changes a few entries: other actions, addresses, sizes, streams, blocks, times; some twice, some not at all.
void damage(Run& run, test::Random& random) {
  if (run.allocator.empty()) return;
  for (int i = 0; i < 20; ++i) {
    AllocatorRecord& event = run.allocator[random.below(run.allocator.size())];
    switch (random.below(7)) {
      case 0:
        event.action = static_cast<AllocatorAction>(random.below(10));
        break;
      case 1:
        event.address += random.below(4 * kMiB) - 2 * kMiB;
        break;
      case 2:
        event.size = random.below(2) == 0 ? random.below(64 * kMiB) : ~Bytes{0} - random.below(kMiB);
        break;
      case 3:
        event.stream = StreamId{static_cast<std::uint32_t>(random.below(5))};
        break;
      case 4:
        event.block = random.below(2) == 0 ? BlockId{} : BlockId{static_cast<std::uint32_t>(random.below(1000))};
        break;
      case 5:
        event.time = {static_cast<std::int64_t>(random.below(1000)) - 500};
        break;
      default:
        run.allocator.insert(run.allocator.begin() + static_cast<std::ptrdiff_t>(random.below(run.allocator.size())),
                             AllocatorRecord(event));
    }
  }
  for (int i = 0; i < 3 && !run.blocks.empty(); ++i)
    run.blocks[random.below(run.blocks.size())].size = random.below(3) == 0 ? ~Bytes{0} : random.below(kGiB);
}

TEST_CASE("contradictions are counted and passed over", "[explain]") {
  CHECK(rc::check([] {
    test::ProgramOptions options;
    options.config = *rc::gen::elementOf(test::tested_configs());
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    options.operations = 150;
    Run run = test::record(options).run;
    test::Random random(options.seed ^ 0x5eed);
    damage(run, random);
    run.info.kind = *rc::gen::elementOf(std::vector<RunKind>{RunKind::planned, RunKind::imported});
    if (random.below(2) == 0) run.segments.clear();
    StepRecord step;
    step.end = {1000};
    run.steps.push_back(step);
    const auto e = explain(run, {.at = Nanoseconds{10}});
    if (!e) {
      RC_ASSERT(!e.error().what.empty());
      return;
    }
    for (const GapPoint& point : e->series) {
      RC_ASSERT(point.parts.reserved() < (Bytes{1} << 62));
      RC_ASSERT(point.parts.hard <= point.parts.reserved());
      RC_ASSERT(point.parts.pending_free <= point.parts.active());
    }
  }));
}

}  // namespace
}  // namespace foreshard
