// A process of hand-written programs: what it reserves, carries over, gives back and fails at.
#include "sim/forecast/allocator_process.hpp"

#include "tests/catch.hpp"
#include "tests/sim/forecast/hand_programs.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using namespace foreshard::sim::test;

TEST_CASE("equal steps reserve once", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB));
  const AllocationProgram step = stack_of({30 * kMiB, 40 * kMiB});
  REQUIRE(process_of.run(step));
  CHECK(process_of.use().reserved == 70 * kMiB);
  CHECK(process_of.use().peak_allocated == 70 * kMiB);
  REQUIRE(process_of.growth().size() == 2);
  CHECK(process_of.growth()[1].requested == 40 * kMiB);
  CHECK(process_of.growth()[1].slot == 1);
  for (int i = 0; i < 10; ++i) REQUIRE(process_of.run(step));
  CHECK(process_of.growth().size() == 2);
  CHECK(process_of.use().reserved == 70 * kMiB);
}

TEST_CASE("a longer step finds no block of the shorter one's", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB));
  const AllocationProgram step_1 = stack_of({30 * kMiB});
  REQUIRE(process_of.run(step_1));
  const AllocationProgram step_2 = stack_of({40 * kMiB});
  REQUIRE(process_of.run(step_2));
  CHECK(process_of.use().reserved == 70 * kMiB);
  CHECK(process_of.growth().size() == 2);
}

TEST_CASE("under a limit segments go back before a request is served, and the retry is counted", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB, 64 * kMiB));
  const AllocationProgram step_1 = stack_of({30 * kMiB});
  REQUIRE(process_of.run(step_1));
  const AllocationProgram step_2 = stack_of({40 * kMiB});
  REQUIRE(process_of.run(step_2));
  CHECK(process_of.use().reserved == 40 * kMiB);
  CHECK(process_of.use().retries == 1);
  CHECK(process_of.use().released == 1);
  CHECK(process_of.retried_slots() == std::vector<std::uint32_t>{0});
  const AllocationProgram step_3 = stack_of({40 * kMiB});
  REQUIRE(process_of.run(step_3));
  CHECK(process_of.use().retries == 0);
  CHECK(process_of.retried_slots().empty());
}

TEST_CASE("what a step carries over lives until the next one frees it", "[forecast]") {
  HandProgram first;
  first.carry(first.malloc(30 * kMiB));
  HandProgram next;
  next.carry(next.malloc(30 * kMiB)).free_carried(0);
  const AllocationProgram first_program = first.program(), next_program = next.program();
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB));
  REQUIRE(process_of.run(first_program));
  CHECK(process_of.use().reserved == 30 * kMiB);
  for (int i = 0; i < 5; ++i) REQUIRE(process_of.run(next_program));
  CHECK(process_of.use().reserved == 60 * kMiB);
  CHECK(process_of.use().peak_allocated == 60 * kMiB);
}

TEST_CASE("setup's blocks are freed by their slot", "[forecast]") {
  HandProgram setup;
  setup.malloc(20 * kMiB);
  setup.malloc(30 * kMiB);
  HandProgram step;
  step.free_setup(1);
  step.free(step.malloc(30 * kMiB));
  const AllocationProgram step_program = step.program();
  const ProcessStart start{{}, {}, setup.program()};
  AllocatorProcess process_of(start, process(kGiB));
  REQUIRE(process_of.run(step_program));
  CHECK(process_of.use().reserved == 50 * kMiB);
}

TEST_CASE("a request that finds no memory ends the process, and says what it asked for", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB, 64 * kMiB));
  const AllocationProgram step_1 = stack_of({30 * kMiB, 50 * kMiB});
  CHECK_FALSE(process_of.run(step_1));
  REQUIRE(process_of.out_of_memory());
  CHECK(process_of.failed_slot() == 1);
  CHECK(process_of.out_of_memory()->requested == 50 * kMiB);
  CHECK(process_of.out_of_memory()->allocated == 30 * kMiB);
}

TEST_CASE("empty_cache gives what is unused back", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB));
  const AllocationProgram step_1 = stack_of({30 * kMiB, 40 * kMiB});
  REQUIRE(process_of.run(step_1));
  process_of.empty_cache();
  const AllocationProgram step_2 = stack_of({30 * kMiB});
  REQUIRE(process_of.run(step_2));
  CHECK(process_of.use().reserved == 30 * kMiB);
}

TEST_CASE("expandable segments grow by pages", "[forecast]") {
  const ProcessStart start = empty_start();
  AllocatorProcess process_of(start, process(kGiB, {}, "expandable_segments:True"));
  const AllocationProgram step_1 = stack_of({30 * kMiB});
  REQUIRE(process_of.run(step_1));
  CHECK(process_of.use().reserved == 40 * kMiB);  // two pages of 20 MiB
  const AllocationProgram step_2 = stack_of({50 * kMiB});
  REQUIRE(process_of.run(step_2));
  CHECK(process_of.use().reserved == 60 * kMiB);
}
