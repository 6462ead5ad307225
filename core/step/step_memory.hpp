// The memory of one rank's training process: FSDP2's buffers, the gradients that autograd leaves, the program's tensors
// and what is older than the recording, all in one caching allocator.
//
// Who: StepBackend and the runner allocate and free through it, the lowerings ask it where things lie. Running out of
// memory is thrown as AllocationFailed, which run_steps() catches. One thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/allocator/pools_by_kind.hpp"
#include "core/device/segment_log.hpp"
#include "core/fsdp/fsdp_backend.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/run/allocation_names.hpp"
#include "core/step/process_memory.hpp"
#include "core/step/program_state.hpp"
#include "core/step/return_events.hpp"
#include "core/step/run_recorder.hpp"
#include "core/step/step_streams.hpp"

namespace foreshard {

/// Thrown inside a step when an allocation fails; never leaves run_steps().
struct AllocationFailed {
  OutOfMemory report;
};

struct StepMemoryOptions {
  bool warm = false;            ///< step 0 already runs the steady program
  bool repeat_returns = false;  ///< freed blocks come back when they did in the recording
};

class StepMemory {
 public:
  /// All references must outlive this.
  StepMemory(const Workload& workload, const std::vector<UnitPlan>& plans, const AllocatorConfig& config,
             StepMemoryOptions options, StepStreams& streams, Device& device, DeviceMemory& memory,
             RunRecorder& recorder);

  /// Puts what the recorded process held before its recording in place, and says where. `as_recorded`: at the recorded
  /// addresses; else, and for expandable segments (whose range exists only there), the blocks are asked for again in
  /// address order.
  void adopt_older(bool as_recorded, ProcessMemory& where);
  /// What comes now is what the recording began with.
  void begin_recording() { returns_.begin_recording(); }

  // FSDP2's buffers (FsdpBackend).
  Allocation allocate(const BufferRequest& request);
  void free(BufferRef buffer);
  void record_stream(BufferRef buffer, StreamId stream);
  [[nodiscard]] std::optional<BufferRef> gradient(ParameterId parameter);
  /// 0 for an invalid buffer.
  [[nodiscard]] Address address(BufferRef buffer) const {
    return buffer.valid() ? allocator_.address(buffers_[buffer.value].block) : 0;
  }
  /// Of the gradient that autograd holds; 0: none.
  [[nodiscard]] Address gradient_address(ParameterId parameter) const {
    const Gradient& gradient = gradients_[parameter.value];
    return gradient.block.valid() ? allocator_.address(gradient.block) : 0;
  }

  // The user's program.
  /// Setup (−1) or the next step begins.
  void begin_program(std::int32_t step);
  [[nodiscard]] const Program& program_of(std::int32_t step) const { return programs_.program_of(step); }
  [[nodiscard]] BlockHandle allocate(const Op& op, const AllocationName& called, Bytes bytes, StreamId on);
  /// Who has the block of an alloc from now on: the op's tensor, or the parameter's gradient.
  void hold(const Op& op, BlockHandle block);
  void free(const Op& op);

  // A CUDA graph of the passes.
  /// The stream that the program's own allocations are made on from now on, in place of the compute stream.
  void allocate_on(StreamId current) { current_ = current; }
  /// torch.cuda.graph.__enter__: empty_cache(), the generator's state (CUDAGraph.capture_begin,
  /// register_generator_state: a seed and an offset on the current stream, kept), and from now on a pool of the graph's
  /// own.
  void begin_capture();
  void end_capture() { capturing_ = false; }
  /// What was allocated of the step's tensors before its passes stays: the graph's inputs.
  void keep_inputs(const Program& program, std::size_t before) { programs_.keep(program, before); }
  /// As it is now.
  [[nodiscard]] GraphPool graph_pool() const;

  // Blocks of the optimizer.
  [[nodiscard]] BlockHandle allocate(Bytes bytes, MemoryCategory category, ParameterId parameter,
                                     StreamId on = kComputeStream);
  void free(BlockHandle block);
  [[nodiscard]] Address address(BlockHandle block) const { return allocator_.address(block); }

  void reset_peaks() { allocator_.reset_peak_statistics(); }
  [[nodiscard]] MemoryPeaks peaks() const { return allocator_.peaks(); }
  [[nodiscard]] const AllocatorStatistics& statistics() const { return allocator_.statistics(); }
  [[nodiscard]] std::vector<SnapshotSegment> snapshot() const { return allocator_.snapshot(); }
  /// What the driver gave since adopt_older().
  [[nodiscard]] SegmentList take_segments() { return memory_.take(); }

 private:
  struct BufferEntry {
    BlockHandle block;
    ParameterId gradient_of;  ///< of autograd's gradients
  };
  struct Gradient {
    BlockHandle block;
    BufferRef buffer;  ///< once FullyShard has asked for it
  };

  void adopt(SnapshotSegment segment, bool as_recorded);
  BlockHandle malloc(Bytes bytes, StreamId on, PoolId pool, BlockRecord what);

  const Workload& workload_;
  const std::vector<UnitPlan>& plans_;
  StepStreams& streams_;
  RunRecorder& recorder_;
  ReturnEvents returns_;
  SegmentLog memory_;
  CachingAllocator allocator_;
  ProgramState programs_;
  std::int32_t step_ = -1;
  StreamId current_ = kComputeStream;
  PoolId graph_pool_;  // invalid: nothing was captured
  bool capturing_ = false;
  PoolsByKind pools_;
  std::vector<BufferEntry> buffers_;        // by BufferRef
  std::vector<Gradient> gradients_;         // by parameter: the user's gradient of this microbatch
  std::vector<bool> symmetric_gradients_;   // by parameter: peers read them (ParamGroupPlan::reduces_gradients)
  std::map<Address, BlockHandle> adopted_;  // blocks older than the workload, by recorded address
};

}  // namespace foreshard
