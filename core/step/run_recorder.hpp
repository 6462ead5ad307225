// Writes what the host program does into a Run: allocator events with their blocks, device ops, event
// records and waits, steps and phases. With `enabled` false it costs nothing and writes nothing; with `ops_alone` it
// writes device ops, streams and steps.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/device/device.hpp"
#include "core/run/run.hpp"

namespace foreshard {

class RunRecorder final : public AllocatorObserver {
 public:
  /// With `counts_events` times on the host are the number of allocator events before them: of a workload without
  /// times, all of whose events a device has at one time, so that no step is told from another by them.
  RunRecorder(Run& run, Device& device, bool enabled, bool ops_alone, bool counts_events)
      : run_(run),
        device_(device),
        enabled_(enabled),
        whole_(enabled && !ops_alone),
        counts_(whole_ && counts_events) {}

  [[nodiscard]] Nanoseconds now() const {
    return counts_ ? Nanoseconds{static_cast<std::int64_t>(run_.allocator.size())} : device_.host_now();
  }

  /// Whether it is to be told of blocks and of the allocator's events.
  [[nodiscard]] bool records_blocks() const { return whole_; }
  [[nodiscard]] Labels& labels() { return run_.labels; }

  void add_stream(StreamId id, const StreamOptions& options);

  /// What the next block that the allocator hands out is for.
  void expect_block(const BlockRecord& what) { expected_ = what; }
  /// The size of the one that it handed out last.
  void block_made(Bytes size) { run_.blocks.back().size = size; }
  void on_event(const AllocatorEvent& event) override;

  void kernel(OpId op, StreamId stream, KernelClass kernel_class, LabelId label, UnitId unit);
  void copy(OpId op, StreamId stream, Bytes bytes, LabelId label, UnitId unit);
  void collective(OpId op, StreamId stream, const CollectiveWork& work, CommunicatorId communicator, UnitId unit);
  void event(EventRecord::Kind kind, EventId event, StreamId stream);

  /// One of FSDP2's sections on the host, under the name that PyTorch's annotation has.
  void section(const SectionCost& cost, const std::string& unit, Nanoseconds start);
  void phase(Hook hook, std::int32_t step);
  void step(std::int32_t index, Nanoseconds begin, Nanoseconds end, const MemoryPeaks& peaks,
            const AllocatorStatistics& statistics);
  /// The step that the host stands in for ever, up to there.
  void stopped_step(std::int32_t index, Nanoseconds begin, Nanoseconds end, const MemoryPeaks& peaks,
                    const AllocatorStatistics& statistics);
  /// Fills in the device's timings. Requires a synchronised device, or one whose host has stopped for ever: what never
  /// began there is left out, and what never ended ends at OpTiming::kNever.
  void finish(std::vector<SnapshotSegment> segments);

 private:
  DeviceOpRecord& add(OpId op, DeviceOpRecord::Kind kind, StreamId stream, LabelId label, UnitId unit);

  Run& run_;
  Device& device_;
  bool enabled_;
  bool whole_;
  bool counts_;
  BlockRecord expected_;
  std::vector<OpId> ops_;                          // by place in run_.device_ops
  std::unordered_map<Address, BlockId> block_at_;  // live and pending blocks; lookup only
  std::vector<std::size_t> step_last_op_;          // device ops issued by each whole step's end
};

}  // namespace foreshard
