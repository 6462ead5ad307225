// What FSDP2's host code calls, in host order: allocations, events, waits, and ops on streams.
//
// Who: FullyShard calls it; core/step answers with a caching allocator and a Device, traces/capture's recogniser by
// matching a recorded trace. So one state machine both predicts a schedule and finds it in a capture.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/base/quantity.hpp"
#include "core/device/device_memory.hpp"
#include "core/fsdp/fsdp_op.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// The streams that FSDP2 knows (FSDPCommContext.lazy_init, PyTorch 2.11).
enum class StreamRole : std::uint8_t {
  compute = 0,         ///< the user's current stream
  copy_in = 1,         ///< all_gather_copy_in_stream, priority −1
  all_gather = 2,      ///< all_gather_stream, priority −1
  reduce_scatter = 3,  ///< reduce_scatter_stream, priority −1
  all_reduce = 4,      ///< all_reduce_stream, priority 0
  process_group = 5,   ///< the NCCL process group's own stream: async collectives
  optimizer = 6,       ///< Settings::optimizer_overlap alone: foreshard's, not FSDP2's
};
inline constexpr std::size_t kStreamRoles = 7;
inline constexpr std::size_t kFsdpStreams = 6;  ///< those that every run has

/// What a buffer of FSDP2 is.
enum class Buffer : std::uint8_t {
  flat_cast = 0,      ///< flat buffer of shards cast to the param dtype
  offload_input = 1,  ///< H2D copy of an offloaded shard
  offload_cast = 2,   ///< … cast to the param dtype
  gather = 3,         ///< all-gather block: the flat output, the input is a slice of it
  unsharded = 4,      ///< one unsharded parameter
  split_metadata = 5,
  clone = 6,  ///< int reshard: a parameter's part kept after forward
  reduce_input = 7,
  chunk_cat_metadata = 8,
  reduce_output = 9,  ///< reduce-scatter output in the reduce dtype
  cast_output = 10,   ///< … cast back to the parameters' dtype
  accumulated_gradient = 11,
  symmetric_array = 12,  ///< small arrays that rendezvous keeps, for ever
  divided_input = 13,    ///< reduce-scatter input over a gradient_divide_factor, where one rank reduces nothing
  contiguous = 14,       ///< parameter-contiguous all-gather: all unsharded parameters of the group
  kept_input = 15,       ///< this rank's part of each all-gather, which the optimizer writes: kept for ever
  float8_amaxes = 16,    ///< Float8Scales, of all units: kept for ever
  float8_scales = 17,    ///< likewise
  gathered_chunks = 18,  ///< ParameterPlan::rechunks: a parameter's shards one behind the other, as they were gathered
  gradient_chunks = 19,  ///< … its gradient's, as they are reduced
};

struct BufferRequest {
  Buffer buffer = Buffer::gather;
  ParamGroupId group;
  ParameterId parameter;  ///< invalid for buffers of a whole group
  Bytes bytes = 0;
  StreamRole stream = StreamRole::compute;
  MemoryKind memory = MemoryKind::device;  ///< anything else comes from that kind's pool
};

struct Allocation {
  BufferRef buffer;          ///< invalid for zero bytes: PyTorch's allocator never hears of those
  bool new_segment = false;  ///< the driver was asked for a new segment
};

class FsdpBackend {
 public:
  virtual ~FsdpBackend() = default;

  // Memory. A BufferRef belongs to FullyShard until it frees it; freeing an invalid one does nothing.
  virtual Allocation allocate(const BufferRequest& request) = 0;
  virtual void free(BufferRef buffer) = 0;
  virtual void record_stream(BufferRef buffer, StreamRole stream) = 0;
  /// The gradient that autograd has left in this parameter's unsharded .grad, in the compute dtype; none: it left
  /// none since the last one was freed. FullyShard drops it with free().
  [[nodiscard]] virtual std::optional<BufferRef> gradient(ParameterId parameter) = 0;

  // Order on the GPU.
  [[nodiscard]] virtual EventId record_event(StreamRole stream) = 0;
  virtual void wait_event(StreamRole stream, EventId event) = 0;
  virtual void synchronize_event(EventId event) = 0;

  // Work. Every op is inside a section: the annotation (record_function) under which PyTorch does it.
  virtual void begin_section(Section section, ParamGroupId group, Pass pass) = 0;
  virtual void issue(const FsdpOp& op, StreamRole stream) = 0;
  virtual void end_section() = 0;
};

}  // namespace foreshard
