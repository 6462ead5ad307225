// Runs made by hand for the pictures' tests.
#pragma once

#include <string>

#include "core/run/run.hpp"

namespace foreshard::viz {

inline Nanoseconds us(std::int64_t count) {
  return Nanoseconds::from_us(count);
}

/// Appends allocator events with their blocks.
class MemoryScript {
 public:
  explicit MemoryScript(Run& run) : run_(run) {}

  BlockId alloc(Nanoseconds time, Bytes size, MemoryCategory category) {
    const BlockId id{static_cast<std::uint32_t>(run_.blocks.size())};
    BlockRecord block;
    block.address = next_;
    block.requested = size - 100;
    block.size = size;
    block.stream = kComputeStream;
    block.category = category;
    run_.blocks.push_back(block);
    event(AllocatorAction::alloc, time, id);
    next_ += size;
    return id;
  }
  void free(Nanoseconds requested, BlockId block) {
    event(AllocatorAction::free_requested, requested, block);
    event(AllocatorAction::free_completed, requested, block);
  }
  void event(AllocatorAction action, Nanoseconds time, BlockId block) {
    run_.allocator.push_back(
        {action, run_.blocks[block.value].address, run_.blocks[block.value].requested, kComputeStream, time, block});
  }
  void segment(AllocatorAction action, Nanoseconds time, Bytes size) {
    run_.allocator.push_back({action, next_, size, kComputeStream, time, {}});
  }

 private:
  Run& run_;
  Address next_ = 0x7f0000000000;
};

inline DeviceOpRecord kernel(StreamId stream, Nanoseconds issue, Nanoseconds start, Nanoseconds end,
                             KernelClass kernel_class) {
  DeviceOpRecord op;
  op.stream = stream;
  op.issue = issue;
  op.start = start;
  op.end = end;
  op.kernel_class = kernel_class;
  return op;
}

/// Two planned steps of two units: every category of mark, lane and line that a picture has, in a few ops.
inline Run small_run() {
  Run run;
  run.info.kind = RunKind::planned;
  run.info.name = "small <run> & more";
  run.info.gpu = "NVIDIA H200";
  run.settings.gpus = 4;
  run.settings.forward_prefetch = 2;
  run.units = {{"", {}}, {"layers.0", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0},
                 {StreamId{1}, "all-gather copy-in", 0, -1},
                 {StreamId{2}, "all-gather", 0, -1},
                 {StreamId{3}, "reduce-scatter", 0, -1},
                 {StreamId{4}, "user 1", 0, 0}};
  MemoryScript memory(run);
  memory.segment(AllocatorAction::segment_alloc, us(0), 8 * kGiB);
  memory.alloc(us(0), 2 * kGiB, MemoryCategory::parameters);
  for (int step = 0; step < 2; ++step) {
    const Nanoseconds t = us(step * 10000);
    const auto at = [t](std::int64_t after) { return t + us(after); };
    const BlockId gather = memory.alloc(at(500), kGiB, MemoryCategory::gather_buffers);
    const BlockId activation = memory.alloc(at(2000), 2 * kGiB, MemoryCategory::activations);
    memory.event(AllocatorAction::free_requested, at(3000), gather);
    const BlockId gradient = memory.alloc(at(4000), kGiB, MemoryCategory::gradients);
    memory.event(AllocatorAction::free_completed, at(5000), gather);
    memory.free(at(6000), activation);
    memory.free(at(8000), gradient);
    DeviceOpRecord op = kernel(StreamId{2}, at(600), at(700), at(3000), KernelClass::memory_bound);
    op.kind = DeviceOpRecord::Kind::collective;
    op.unit = UnitId{1};
    op.bytes = kGiB;
    run.device_ops.push_back(kernel(StreamId{1}, at(550), at(560), at(690), KernelClass::gather_copy));
    run.device_ops.push_back(op);
    run.device_ops.push_back(kernel(kComputeStream, at(2500), at(3000), at(6000), KernelClass::gemm));
    run.device_ops.push_back(kernel(kComputeStream, at(4500), at(6000), at(7000), KernelClass::attention));
    op = kernel(StreamId{3}, at(7000), at(7200), at(9800), KernelClass::memory_bound);
    op.kind = DeviceOpRecord::Kind::collective;
    op.collective = CollectiveKind::reduce_scatter;
    op.unit = UnitId{0};
    run.device_ops.push_back(op);
    run.device_ops.push_back(kernel(StreamId{4}, at(7100), at(7200), at(7400), KernelClass::memset));
    StepRecord record;
    record.index = step;
    record.start = t;
    record.end = at(10000);
    record.peaks = {5 * kGiB - 300, 5 * kGiB, 6 * kGiB, 8 * kGiB};
    run.steps.push_back(record);
    run.phases.push_back({step, Recording::run, "forward", at(100), at(4000)});
    run.phases.push_back({step, Recording::run, "backward", at(4000), at(8500)});
    run.phases.push_back({step, Recording::run, "optimizer", at(8500), at(9900)});
  }
  run.results["step_ms"] = "10.0";
  return run;
}

}  // namespace foreshard::viz
