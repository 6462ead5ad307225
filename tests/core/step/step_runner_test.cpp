// The host program on a scripted device: what it asks of allocator and device, in order, and how a run ends.
#include "core/step/step_runner.hpp"

#include <algorithm>

#include "tests/contract/scripted_device.hpp"
#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {
namespace {

struct Outcome {
  StepOutcome steps;
  Run run;
  std::vector<std::string> log;
};

Outcome run_on_script(const Workload& w, const Settings& settings, const StepRequest& request = {},
                      Bytes capacity = 8 * kGiB) {
  ScriptedDevice device;
  ScriptedMemory memory(capacity);
  Outcome out;
  auto result = run_steps(w, settings, request, device, memory, out.run);
  REQUIRE(result);
  out.steps = std::move(*result);
  out.log = device.take_log();
  return out;
}

/// Requests alone: "+ bytes" and "- bytes".
std::vector<std::string> requests(const Run& run, std::int32_t step) {
  std::vector<std::string> out;
  for (const AllocatorRecord& e : run.allocator) {
    const bool inside = e.block.valid() && run.blocks[e.block.value].step == step;
    if (inside && e.action == AllocatorAction::alloc) out.push_back(fmt::format("+ {}", e.size));
  }
  return out;
}

Bytes live_bytes(const Run& run) {
  Bytes live = 0;
  for (const AllocatorRecord& e : run.allocator) {
    if (e.action == AllocatorAction::alloc) live += e.size;
    if (e.action == AllocatorAction::free_requested) live -= e.size;
  }
  return live;
}

TEST_CASE("one block on a scripted device: the calls of a forward, in order") {
  Workload w = small_workload(four_gpus(), 1);
  SectionCost gather;
  gather.section = Section::all_gather;
  gather.unit = kRootUnit;
  gather.items = {{SectionRole::copy_in, {10}, {100}, KernelClass::gather_copy, 0, {}},
                  {SectionRole::collective, {20}, {}, KernelClass::memory_bound, 0, {}}};
  gather.host_after = {5};
  SectionCost out = gather;
  out.section = Section::copy_out;
  out.items = {{SectionRole::metadata_copy, {30}, {50}, KernelClass::memory_bound, 48, {}},
               {SectionRole::split, {40}, {200}, KernelClass::memory_bound, 0, {}}};
  w.sections = {gather, out};
  w.has_timing = true;
  const Outcome o = run_on_script(w, w.settings, {.steps = 1, .setup = false});
  const auto begin =
      std::find_if(o.log.begin(), o.log.end(), [](const std::string& l) { return l.starts_with("record"); });
  std::vector<std::string> forward;
  for (auto it = begin; it != o.log.end() && forward.size() < 19; ++it)
    if (*it != "host 0ns") forward.push_back(*it);
  CHECK(forward == std::vector<std::string>{
                       "record compute event 0", "wait all-gather copy-in event 0", "record compute event 1",
                       "wait all-gather event 1", "host 10ns", "launch all-gather copy-in gather_copy 100ns",
                       "record all-gather copy-in event 2", "wait all-gather event 2", "host 20ns",
                       "collective all-gather shard all_gather nccl 128 bytes", "record all-gather event 3", "host 5ns",
                       "wait compute event 3", "host 30ns", "copy compute host_to_device 48 bytes 50ns", "host 40ns",
                       "launch compute memory_bound 200ns", "host 5ns", "record compute event 4"});
  CHECK(o.steps.sections_missing > 0);  // the block's reduce has no template
}

TEST_CASE("a workload without timing runs, and leaves nothing behind but state") {
  for (const std::uint32_t microbatches : {1U, 3U}) {
    Settings s = four_gpus();
    s.param_dtype = DType::bfloat16;
    s.reduce_dtype = DType::float32;
    s.accumulate = microbatches;
    const Workload w = small_workload(s, 3);
    const Outcome o = run_on_script(w, s);
    CHECK(o.steps.sections_missing == 0);
    REQUIRE(o.steps.steps.size() == 4);
    // Shards, two Adam states each, the workspace, and the last step's sharded gradients.
    Bytes shards = 0;
    for (const Op& op : w.setup.ops) shards += op.size.bytes;
    CHECK(live_bytes(o.run) == 4 * shards + kWorkspace);
    CHECK(o.steps.steps[2].peaks == o.steps.steps[3].peaks);
    CHECK(requests(o.run, 2) == requests(o.run, 3));
  }
}

TEST_CASE("foreshard's program reduces by pull_reduce, by whichever name it was asked") {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  const auto log_of = [&](Transport transport, Lowering lowering) {
    s.reduce_scatter = transport;
    const Workload w = small_workload(s, 2);
    return run_on_script(w, s, {.steps = 1, .lowering = lowering}).log;
  };
  const auto pulled = log_of(Transport::pull_reduce, Lowering::foreshard);
  CHECK(log_of(Transport::low_contention, Lowering::foreshard) == pulled);
  CHECK(log_of(Transport::low_contention, Lowering::pytorch) != pulled);
}

TEST_CASE("reduce-scatters have a communicator of their own where the settings say so") {
  const auto collectives = [](bool separate) {
    Settings s = four_gpus();
    s.separate_reduce_scatter_group = separate;
    std::vector<std::string> out;
    for (const std::string& line : run_on_script(small_workload(s, 2), s, {.steps = 1}).log)
      if (line.starts_with("collective ")) out.push_back(line.substr(0, line.find(" nccl")));
    return out;
  };
  const auto shared = collectives(false), separate = collectives(true);
  REQUIRE(shared.size() == separate.size());
  std::size_t scatters = 0;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const bool scatter = shared[i] == "collective reduce-scatter shard reduce_scatter";
    scatters += scatter ? 1 : 0;
    CHECK(separate[i] == (scatter ? "collective reduce-scatter reduce-scatter reduce_scatter" : shared[i]));
  }
  CHECK(scatters == 3);
}

TEST_CASE("accumulation costs the float32 gradients of every unit") {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  const auto peak = [&](std::uint32_t n) {
    s.accumulate = n;
    return run_on_script(small_workload(s, 3), s).steps.steps.back().peaks.requested;
  };
  CHECK(peak(2) > peak(1));
  CHECK(peak(3) == peak(2));
}

TEST_CASE("peaks are reset at each step's begin, states come in the first") {
  const Workload w = small_workload(four_gpus(), 2);
  const Outcome o = run_on_script(w, w.settings);
  const auto states = [&](std::int32_t step) {
    return std::count_if(o.run.blocks.begin(), o.run.blocks.end(), [&](const BlockRecord& b) {
      return b.step == step && b.category == MemoryCategory::optimizer_state;
    });
  };
  CHECK(states(0) == 2 * 5);
  CHECK(states(1) == 0);
  CHECK(o.run.steps.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(o.run.steps[i].peaks == o.steps.steps[i].peaks);
}

TEST_CASE("a warm run never allocates what only the first step does") {
  const Workload w = small_workload(four_gpus(), 2);
  const Outcome o = run_on_script(w, w.settings, {.steps = 2, .warm = true});
  CHECK(std::none_of(o.run.blocks.begin(), o.run.blocks.end(),
                     [](const BlockRecord& b) { return b.requested == kWorkspace; }));
}

TEST_CASE("running out of memory ends the run with a report of where") {
  const Workload w = small_workload(four_gpus(), 2);
  const Outcome o = run_on_script(w, w.settings, {}, 8 * kMiB);  // not room for the workspace beside the rest
  REQUIRE(o.steps.out_of_memory);
  CHECK(o.steps.out_of_memory_step == 0);
  CHECK(o.steps.out_of_memory->requested > 0);
  CHECK(o.steps.out_of_memory->allowed == 8 * kMiB);
  CHECK(o.steps.steps.empty());
  const auto ooms = std::count_if(o.run.allocator.begin(), o.run.allocator.end(),
                                  [](const AllocatorRecord& e) { return e.action == AllocatorAction::oom; });
  CHECK(ooms == 1);
}

TEST_CASE("blocks of an earlier step are freed by a later one") {
  Workload w = small_workload(four_gpus(), 1);
  ProgramWriter writer;
  writer.alloc("kept", 123'456);
  writer.free_of_step_before(writer.tensor("kept"));
  w.steps = {writer.program};
  const Outcome o = run_on_script(w, w.settings, {.steps = 3, .setup = false});
  CHECK(live_bytes(o.run) == 123'456);  // the last step's
  CHECK(std::count_if(o.run.allocator.begin(), o.run.allocator.end(), [](const AllocatorRecord& e) {
          return e.action == AllocatorAction::free_requested;
        }) == 2);  // step 0 finds nothing to free
}

TEST_CASE("a tensor of setup is freed once") {
  Workload w = small_workload(four_gpus(), 1);
  Op op;
  op.kind = OpKind::free;
  op.tensor = TensorId{0};
  op.from_setup = true;
  w.steps = {{{op}}};
  const Outcome o = run_on_script(w, w.settings, {.steps = 3});
  CHECK(std::count_if(o.run.allocator.begin(), o.run.allocator.end(),
                      [](const AllocatorRecord& e) { return e.action == AllocatorAction::free_requested; }) == 1);
}

TEST_CASE("further streams of the user's program are made once and own their blocks") {
  Workload w = small_workload(four_gpus(), 1);
  ProgramWriter writer;
  writer.alloc("side", 1000);
  writer.program.ops.back().user_stream = 2;
  writer.free("side");
  Op kernel;
  kernel.kind = OpKind::kernel;
  kernel.user_stream = 1;
  kernel.kernel.work = {1000};
  writer.program.ops.push_back(kernel);
  w.steps = {writer.program};
  const Outcome o = run_on_script(w, w.settings, {.steps = 2, .setup = false});
  const auto named = [&](const char* name) {
    return std::find_if(o.run.streams.begin(), o.run.streams.end(),
                        [&](const StreamRecord& s) { return s.name == name; });
  };
  REQUIRE(named("user 2") != o.run.streams.end());
  CHECK(o.run.streams.size() == kFsdpStreams + 2);
  CHECK(o.run.blocks.at(0).stream == named("user 2")->id);
  CHECK(o.run.device_ops.at(0).stream == named("user 1")->id);
  CHECK_FALSE(o.steps.steps.back().last_compute_op);
}

TEST_CASE("the program's own collectives wait for the compute stream, and it waits where the program says") {
  Workload w = small_workload(four_gpus(), 1);
  w.settings.tensor_parallel = 2;
  w.process_groups = {{"mesh_tp", 2, 1}};
  ProgramWriter writer;
  Op op;
  op.kind = OpKind::collective;
  op.user_stream = 1;
  op.collective = {0, CollectiveKind::all_reduce, 4096};
  writer.program.ops.push_back(op);
  op.kind = OpKind::wait_stream;
  writer.program.ops.push_back(op);
  w.steps = {writer.program};
  const Outcome o = run_on_script(w, w.settings, {.steps = 1, .setup = false});
  std::vector<std::string> log;
  for (const std::string& line : o.log)
    if (line != "host 0ns") log.push_back(line);
  const auto begin = std::find_if(log.begin(), log.end(), [](const std::string& l) { return l.starts_with("record"); });
  REQUIRE(log.end() - begin >= 6);
  CHECK(std::vector<std::string>(begin, begin + 6) ==
        std::vector<std::string>{"record compute event 0", "wait mesh_tp (1) event 0", "communicator mesh_tp ranks 2",
                                 "collective mesh_tp (1) mesh_tp all_reduce nccl 4096 bytes",
                                 "record mesh_tp (1) event 1", "wait compute event 1"});
}

TEST_CASE("a block given to record_stream is back when the group's stream has passed it, not the compute stream") {
  Workload w = small_workload(four_gpus(), 1);
  w.process_groups = {{"cp", 4, 1}};
  ProgramWriter writer;
  writer.alloc("sent", 4 * kMiB);
  Op op;
  op.kind = OpKind::collective;
  op.user_stream = 1;
  op.collective = {0, CollectiveKind::send_recv, 4 * kMiB};
  writer.program.ops.push_back(op);
  writer.free("sent");
  writer.program.ops.back().user_stream = 1;
  w.steps = {writer.program};
  const auto calls = [&] {
    std::vector<std::string> log = run_on_script(w, w.settings, {.steps = 1, .setup = false}).log;
    std::erase(log, "host 0ns");
    return log;
  };
  const std::vector<std::string> log = calls();
  const auto sent = std::find_if(log.begin(), log.end(),
                                 [](const auto& l) { return l.starts_with("collective cp (1) cp send_recv"); });
  REQUIRE(log.end() - sent >= 3);
  const std::string end = "record cp (1) event ";
  CHECK((sent + 1)->starts_with(end));  // WorkNCCL's
  CHECK((sent + 2)->starts_with(end));  // the allocator's
  w.steps[0].ops.back().user_stream = 0;
  CHECK(calls().size() < log.size());
}

TEST_CASE("collectives of FSDP2's own group are its communicator's") {
  Workload w = small_workload(four_gpus(), 1);
  w.process_groups = {{"default_pg", 4, 1, true}, {"other", 4, 1}};
  ProgramWriter writer;
  Op op;
  op.kind = OpKind::collective;
  op.collective = {0, CollectiveKind::all_to_all, 4096};
  writer.program.ops.push_back(op);
  op.collective.group = 1;
  writer.program.ops.push_back(op);
  w.steps = {writer.program};
  const auto asked = [&](const Settings& settings) {
    std::vector<std::string> out;
    for (const std::string& line : run_on_script(w, settings, {.steps = 1, .setup = false}).log)
      if (line.starts_with("collective compute")) out.push_back(line);
    return out;
  };
  CHECK(asked(w.settings) == std::vector<std::string>{"collective compute shard all_to_all nccl 4096 bytes",
                                                      "collective compute other all_to_all nccl 4096 bytes"});
}

TEST_CASE("sizes follow the mesh: shards and states double on half as many ranks") {
  const Workload w = small_workload(four_gpus(), 2);
  Settings half = four_gpus();
  half.replicate = 2;
  const auto persistent = [&](const Settings& s) {
    const Outcome o = run_on_script(w, s);
    Bytes bytes = 0;
    for (const BlockRecord& b : o.run.blocks)
      if (b.category == MemoryCategory::parameters || b.category == MemoryCategory::optimizer_state)
        bytes += b.requested;
    return bytes;
  };
  CHECK(persistent(half) == 2 * persistent(four_gpus()));
}

TEST_CASE("offload keeps shards, states and gradients off the device") {
  const Workload w = small_workload(four_gpus(), 2);
  Settings s = four_gpus();
  s.offload = true;
  const Outcome o = run_on_script(w, s);
  CHECK(live_bytes(o.run) == kWorkspace);
}

TEST_CASE("settings that do not fit are refused before anything runs") {
  Workload w = small_workload(four_gpus(), 1);
  ScriptedDevice device;
  ScriptedMemory memory(kGiB);
  Run run;
  Settings bad = w.settings;
  bad.reshard_after_forward = {Reshard::Kind::group, 3};
  CHECK(run_steps(w, bad, {}, device, memory, run).error().kind == ErrorKind::usage);
  bad = w.settings;
  bad.alloc_conf = "no_such_option:1";
  CHECK_FALSE(run_steps(w, bad, {}, device, memory, run));
  w.steps.clear();
  CHECK_FALSE(run_steps(w, w.settings, {}, device, memory, run));
  CHECK(memory.log().empty());
}

}  // namespace
}  // namespace foreshard::test
