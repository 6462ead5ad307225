// A run whose driver gives other addresses than the model: the plan made before it may reserve other amounts, the plan
// with its addresses repeats it to the byte.
#include "core/step/process_memory.hpp"

#include "core/adapt/adapt.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/step/step_runner.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/contract/scripted_device.hpp"

namespace foreshard::sim {
namespace {

/// llama-tiny as `foreshard run` was measured with on 4 × H200.
Settings measured_settings() {
  Settings s;
  s.gpus = 4;
  s.batch = 2;
  s.seq = 1024;
  s.param_dtype = DType::bfloat16;
  s.checkpoint = Checkpoint::blocks;
  return s;
}

MachineProfile measured_machine() {
  return *builtin_profile("h200");
}

Workload llama_tiny(const Settings& settings) {
  const MachineProfile machine = measured_machine();
  return generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
}

struct Executed {
  StepOutcome outcome;
  Run run;
};

/// What `foreshard run` does, in virtual time and with a driver whose addresses only ascend.
Executed execute(const Workload& workload) {
  const auto adapted = adapt(workload, workload.settings);
  REQUIRE(adapted);
  const MachineProfile machine = measured_machine();
  const ModelledCollectives collectives(machine);
  SimOptions options;
  options.labels = &adapted->workload.labels;
  SimDevice device(machine, collectives, options);
  ScriptedMemory driver(machine.memory_total);
  Executed done;
  StepRequest request;
  request.synchronized = 1;
  request.lowering = Lowering::foreshard;
  auto outcome = run_steps(adapted->workload, workload.settings, request, device, driver, done.run);
  REQUIRE(outcome);
  done.outcome = std::move(*outcome);
  return done;
}

Prediction planned(Workload workload, const Settings& settings, Lowering lowering = Lowering::pytorch) {
  workload.lowering = lowering;
  auto p = predict(workload, measured_machine(), {settings, {}, 4});
  REQUIRE(p);
  return std::move(*p);
}

/// Whether the driver gave the address for MemoryKind::device; symmetric memory has addresses of its own.
bool of_device(const ProcessMemory& memory, Address address) {
  for (const SnapshotSegment& s : memory.initial_segments)
    if (address >= s.address && address < s.address + s.total_size) return true;
  for (std::size_t i = 0; i < memory.segments.sizes.size(); ++i)
    if (address >= memory.segments.addresses[i] && address < memory.segments.addresses[i] + memory.segments.sizes[i])
      return true;
  return false;
}

/// The two hosts differ in time and in who asks for the blocks older than the workload, in nothing else.
void check_repeats(const Executed& done, const Prediction& p) {
  CHECK_FALSE(p.addresses_invented);
  CHECK(p.peaks == done.outcome.steps.back().peaks);
  const auto& run = done.run.allocator;
  const auto& plan = p.run.allocator;
  REQUIRE(plan.size() <= run.size());
  const std::size_t before = run.size() - plan.size();
  CHECK(before <= 2);  // the first segment and the block in it
  for (std::size_t i = 0; i < plan.size(); ++i) {
    INFO("event " << i);
    const AllocatorRecord& ran = run[before + i];
    REQUIRE(plan[i].action == ran.action);
    if (of_device(done.outcome.memory, ran.address)) REQUIRE(plan[i].address == ran.address);
    REQUIRE(plan[i].size == ran.size);
    REQUIRE(plan[i].stream == ran.stream);
  }
}

TEST_CASE("other addresses of the driver reserve other amounts; a plan that is given them repeats the run") {
  const Workload workload = llama_tiny(measured_settings());
  const Executed done = execute(workload);
  const MemoryPeaks& peaks = done.outcome.steps.back().peaks;
  // What 4 × H200 reserved, where the driver's addresses mostly ascended too.
  CHECK(peaks.allocated == 1375810560);
  CHECK(peaks.reserved == 2099249152);
  const Prediction blind = planned(workload, workload.settings);
  CHECK(blind.peaks.requested == peaks.requested);
  CHECK(blind.peaks.reserved != peaks.reserved);
  const Workload recorded = recorded_in(workload, workload.settings, done.outcome.memory);
  check_repeats(done, planned(recorded, workload.settings));
  check_repeats(done, planned(recorded, workload.settings, Lowering::foreshard));
}

TEST_CASE("a block older than the workload is freed where the run had it") {
  Settings settings = measured_settings();
  settings.checkpoint = Checkpoint::none;
  settings.all_gather = Transport::copy_engine;
  const Workload workload = llama_tiny(settings);
  const Executed done = execute(workload);
  const auto older = workload.initial_segments.front().blocks.front().address;
  REQUIRE(done.outcome.memory.older_blocks.count(older) == 1);
  CHECK(done.outcome.memory.older_blocks.at(older) != older);
  const Workload recorded = recorded_in(workload, settings, done.outcome.memory);
  check_repeats(done, planned(recorded, settings));
  check_repeats(done, planned(recorded, settings, Lowering::foreshard));
}

TEST_CASE("addresses of one setting say nothing of another") {
  const Workload workload = llama_tiny(measured_settings());
  const Executed done = execute(workload);
  Settings other = measured_settings();
  other.forward_prefetch = 2;
  REQUIRE(other != workload.settings);
  CHECK(recorded_in(workload, other, done.outcome.memory).segment_addresses.empty());
  const Workload recorded = recorded_in(workload, workload.settings, done.outcome.memory);
  const Prediction there = planned(recorded, other);
  CHECK(there.addresses_invented);
  CHECK(there.peaks == planned(workload, other).peaks);
}

TEST_CASE("segments that a plan invents keep clear of blocks older than the workload") {
  const Workload workload = llama_tiny(measured_settings());
  const Executed done = execute(workload);
  Settings other = measured_settings();
  other.forward_prefetch = 2;
  // Within the first arena of the driver's model; in the one below; far below, where a large plan would come.
  for (const Address place : {Address{0x7f9b40800000}, Address{0x7f9b3e000000}, Address{0x7f9b00000000}}) {
    ProcessMemory memory = done.outcome.memory;
    REQUIRE(memory.initial_segments.size() == 1);
    SnapshotSegment& older = memory.initial_segments.front();
    const Address from = older.address;
    older.address = place;
    for (auto& block : older.blocks) block.address += place - from;
    for (auto& [recorded, block] : memory.older_blocks) block += place - from;
    const Prediction p = planned(recorded_in(workload, workload.settings, memory), other);
    std::size_t segments = 0;
    for (const AllocatorRecord& event : p.run.allocator) {
      if (event.action != AllocatorAction::segment_alloc || event.address >> 40U != place >> 40U) continue;
      ++segments;
      CHECK((event.address + event.size <= place || event.address >= place + older.total_size));
    }
    CHECK(segments > 10);
    CHECK(p.peaks == planned(workload, other).peaks);
  }
}

}  // namespace
}  // namespace foreshard::sim
