// One training process as its caching allocator sees it: step after step on one state.
//
// Who: forecast.hpp. One thread; deterministic.
#pragma once

#include <optional>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/allocator/pools_by_kind.hpp"
#include "sim/forecast/derive.hpp"
#include "sim/forecast/known_steps.hpp"
#include "sim/forecast/step_use.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/driver_calls.hpp"

namespace foreshard::sim {

/// Memory that the driver gave: a segment of cudaMalloc, or pages of an expandable segment.
struct SegmentGrowth {
  std::uint32_t slot = 0;  ///< of the step's program: the request that found no block
  Bytes requested = 0;     ///< by it, unrounded
  Bytes bytes = 0;         ///< that the driver gave
};

struct ProcessOptions {
  AllocatorConfig config;
  SimMemoryOptions memory;
  std::optional<Bytes> limit;  ///< torch.cuda.set_per_process_memory_fraction, in bytes; none: the device's memory
  DriverCalls calls = {};      ///< of the machine
  bool as_recorded = true;     ///< what is older lies where it lay; else it is asked for anew, in order of address
};

class AllocatorProcess {
 public:
  /// Runs setup. `start` must outlive this.
  AllocatorProcess(const ProcessStart& start, const ProcessOptions& options);
  ~AllocatorProcess();
  AllocatorProcess(const AllocatorProcess&) = delete;
  AllocatorProcess& operator=(const AllocatorProcess&) = delete;

  /// Runs the next step; false where a request found no memory, and then the process has ended. What a step does that
  /// is known (known_steps.hpp) is not simulated again.
  /// Requires: `program` frees what the step before carries over, and outlives this.
  [[nodiscard]] bool run(const AllocationProgram& program);
  bool run(AllocationProgram&& program) = delete;  ///< it would not outlive this
  /// torch.cuda.empty_cache() behind a step; whether a segment went back.
  bool empty_cache();

  [[nodiscard]] const StepUse& use() const { return use_; }  ///< of the last step, of setup before the first
  [[nodiscard]] const std::vector<SegmentGrowth>& growth() const;
  /// num_device_free of the whole process: cudaFree calls, of expandable segments unmapped runs of pages.
  [[nodiscard]] std::int64_t driver_frees() const { return allocator_.statistics().num_device_free; }
  /// What the driver's calls took, of the whole process from the first on that gave something back (timed_memory.hpp).
  [[nodiscard]] Nanoseconds driver_time() const;
  /// What the request of `failed_slot()` was told.
  [[nodiscard]] const std::optional<OutOfMemory>& out_of_memory() const { return out_of_memory_; }
  /// Of the step that ended the process; beyond its slots where what is older found no memory.
  [[nodiscard]] std::uint32_t failed_slot() const { return slot_; }
  /// The requests that were made good only by giving segments back first, in this step: slots, in order.
  [[nodiscard]] const std::vector<std::uint32_t>& retried_slots() const { return retried_; }
  /// Whether every segment so far lies where the recording has it.
  [[nodiscard]] bool follows_recording() const;

 private:
  class Driver;
  class NoEvents;
  bool malloc(const AllocationOp& op, Bytes bytes);
  void free(const AllocationOp& op);
  bool run_ops(const AllocationProgram& program);
  bool simulate(const AllocationProgram& program);
  void catch_up();
  [[nodiscard]] StepUse measured() const;
  [[nodiscard]] LayoutDigest state() const;

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<NoEvents> events_;
  CachingAllocator allocator_;
  std::uint32_t slot_ = UINT32_MAX;  // none: what is older than the program is asked for
  Bytes requested_ = 0;
  std::int64_t retries_before_ = 0;
  std::int64_t freed_before_ = 0;
  std::vector<BlockHandle> slots_;    // of the step that runs
  std::vector<BlockHandle> carried_;  // over from the step before
  std::vector<BlockHandle> setup_;
  std::vector<BlockHandle> older_;
  std::vector<std::uint32_t> retried_;
  PoolsByKind pools_;
  std::optional<OutOfMemory> out_of_memory_;
  StepUse use_;
  KnownSteps known_;
  bool knows_steps_;  // false: blocks age, and no state comes again
};

}  // namespace foreshard::sim
