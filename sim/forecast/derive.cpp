#include "sim/forecast/derive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/run/block_names.hpp"
#include "core/settings/carried_out.hpp"
#include "core/step/step_runner.hpp"
#include "sim/forecast/host_order.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

constexpr std::size_t kSetup = 0;  // place of setup's program; step k is at k + 1

/// Where a block of the run was allocated.
struct Origin {
  std::size_t program = 0;
  std::uint32_t slot = 0;
};

/// Writes the programs of setup and of each step from the allocator's record of a run.
class Transcript {
 public:
  Transcript(const Run& run, std::size_t programs)
      : run_(run), names_(run), shapes_(programs), sizes_(programs), origins_(run.blocks.size()) {}

  void add_older(const std::vector<SnapshotSegment>& older, std::vector<Address>& blocks) {
    for (const SnapshotSegment& segment : older)
      for (const SnapshotBlock& block : segment.blocks)
        if (block.state != BlockState::inactive) blocks.push_back(block.address);
    for (std::size_t i = 0; i < blocks.size(); ++i) older_.emplace(blocks[i], static_cast<std::uint32_t>(i));
  }

  Result<void> read() {
    std::size_t program = kSetup;
    for (const AllocatorRecord& record : run_.allocator) {
      while (program < run_.steps.size() && record.time > run_.steps[program].start) ++program;
      if (program >= shapes_.size()) break;
      if (record.action == AllocatorAction::alloc) FORESHARD_TRY(add_malloc(record, program));
      if (record.action == AllocatorAction::free_requested) FORESHARD_TRY(add_free(record, program));
    }
    for (std::size_t i = kSetup + 1; i < shapes_.size(); ++i) place_carried(i);
    return {};
  }

  /// Of a program whose step was followed by another one.
  [[nodiscard]] AllocationProgram program(std::size_t place) {
    return {std::make_shared<const ProgramShape>(std::move(shapes_[place])), std::move(sizes_[place])};
  }

 private:
  Result<void> add_malloc(const AllocatorRecord& record, std::size_t program) {
    const BlockRecord& block = run_.blocks[record.block.value];
    ProgramShape& shape = shapes_[program];
    const auto slot = static_cast<std::uint32_t>(sizes_[program].size());
    shape.ops.push_back({AllocationOp::Kind::malloc, static_cast<std::uint8_t>(record.stream.value),
                         EndlessMemory::kind_of(block.address), slot});
    shape.names.push_back(name(block));
    shape.categories.push_back(block.category);
    sizes_[program].push_back(block.requested);
    origins_[record.block.value] = {program, slot};
    return {};
  }

  Result<void> add_free(const AllocatorRecord& record, std::size_t program) {
    std::vector<AllocationOp>& ops = shapes_[program].ops;
    if (!record.block.valid()) {
      const auto place = older_.find(record.address);
      if (place != older_.end()) ops.push_back({AllocationOp::Kind::free_older, 0, {}, place->second});
      return {};
    }
    const Origin origin = origins_[record.block.value];
    if (origin.program == program) {
      ops.push_back({AllocationOp::Kind::free, 0, {}, origin.slot});
    } else if (origin.program == kSetup) {
      ops.push_back({AllocationOp::Kind::free_setup, 0, {}, origin.slot});
    } else if (origin.program + 1 == program) {
      ops.push_back({AllocationOp::Kind::free_carried, 0, {}, origin.slot});  // place_carried() makes it a place
      shapes_[origin.program].carried.push_back(origin.slot);
    } else {
      return fail(ErrorKind::usage, fmt::format("step {} frees memory of step {}, which a forecast does not follow",
                                                program - 1, origin.program - 1));
    }
    return {};
  }

  void place_carried(std::size_t program) {
    std::vector<std::uint32_t>& before = shapes_[program - 1].carried;
    std::sort(before.begin(), before.end());
    for (AllocationOp& op : shapes_[program].ops) {
      if (op.kind != AllocationOp::Kind::free_carried) continue;
      const auto place = std::lower_bound(before.begin(), before.end(), op.index);
      op.index = static_cast<std::uint32_t>(place - before.begin());
    }
  }

  const std::string& name(const BlockRecord& block) {
    const auto [place, is_new] = titles_.try_emplace(BlockNames::key(block));
    if (is_new) place->second = names_.title(block);
    return place->second;
  }

  const Run& run_;
  BlockNames names_;
  std::map<BlockNames::Key, std::string> titles_;  // lookup only
  std::map<Address, std::uint32_t> older_;         // lookup only
  std::vector<ProgramShape> shapes_;               // by program
  std::vector<std::vector<Bytes>> sizes_;
  std::vector<Origin> origins_;  // by block
};

Result<void> check_order_decides(const Workload& workload, const Settings& settings) {
  if (records_streams(workload, settings))
    return fail(ErrorKind::usage,
                "memory that record_stream holds comes back when the GPU has passed it: a forecast runs without time",
                "release", "forecast it with --release stash, or plan single steps with times");
  if (settings.cuda_graph)
    return fail(ErrorKind::usage, "a CUDA graph repeats one length: its memory does not vary", "cuda_graph",
                "plan one step of it");
  return {};
}

}  // namespace

Result<DerivedSteps> derive_steps(const Workload& workload, const Settings& settings, std::int32_t steps) {
  FORESHARD_TRY(check_order_decides(workload, settings));
  HostOrderDevice device;
  EndlessMemory memory;
  StepRequest request;
  request.steps = steps + 1;  // what a step leaves to the next one is seen in that
  request.lowering = workload.lowering;
  Run run;
  run.units = workload.units;
  run.labels = workload.labels;
  // The allocator's configuration shapes no program; the recorded one leaves what is older where it lay.
  Settings recorded = settings;
  recorded.alloc_conf = workload.settings.alloc_conf;
  const auto outcome = run_steps(workload, recorded, request, device, memory, run);
  FORESHARD_TRY(outcome);
  DerivedSteps out;
  // What is older was asked for anew where it is expandable, or the program is foreshard's: it is in setup's program.
  if (workload.lowering == Lowering::pytorch)
    for (const SnapshotSegment& segment : outcome->memory.initial_segments)
      if (!segment.is_expandable) out.start.older.push_back(segment);
  Transcript transcript(run, static_cast<std::size_t>(steps) + 2);
  transcript.add_older(out.start.older, out.start.older_blocks);
  FORESHARD_TRY(transcript.read());
  out.start.setup = transcript.program(kSetup);
  for (std::int32_t i = 0; i < steps; ++i) out.steps.push_back(transcript.program(static_cast<std::size_t>(i) + 1));
  return out;
}

}  // namespace foreshard::sim
