#include "core/step/step_memory.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "core/fsdp/buffer_category.hpp"

namespace foreshard {
namespace {

std::size_t parameters_of(const Workload& workload) {
  std::size_t count = 0;
  for (const Unit& unit : workload.units) count += unit.parameters.size();
  return count;
}

}  // namespace

StepMemory::StepMemory(const Workload& workload, const std::vector<UnitPlan>& plans, const AllocatorConfig& config,
                       StepMemoryOptions options, StepStreams& streams, Device& device, DeviceMemory& memory,
                       RunRecorder& recorder)
    : workload_(workload),
      plans_(plans),
      streams_(streams),
      recorder_(recorder),
      returns_(workload.returns, options.repeat_returns, device),
      memory_(memory),
      allocator_(config, memory_, returns_, recorder.records_blocks() ? &recorder : nullptr),
      programs_(workload, options.warm),
      gradients_(parameters_of(workload)),
      symmetric_gradients_(gradients_.size(), false) {
  for (const UnitPlan& unit : plans)
    for (const ParamGroupPlan& group : unit.groups)
      for (const ParameterPlan& p : group.parameters) symmetric_gradients_[p.id.value] = group.reduces_gradients;
}

void StepMemory::adopt(SnapshotSegment segment, bool as_recorded) {
  std::vector<BlockHandle> handles;
  if (segment.stream <= UINT8_MAX) segment.stream = streams_.user(static_cast<std::uint8_t>(segment.stream)).value;
  if (as_recorded) handles = allocator_.adopt_segment(segment);
  std::size_t next = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state == BlockState::inactive) continue;
    const BlockHandle handle = as_recorded
                                   ? handles[next++]
                                   : malloc(std::max<Bytes>(1, block.requested_size), kComputeStream, kDefaultPool, {});
    adopted_.emplace(block.address, handle);
  }
}

void StepMemory::adopt_older(bool as_recorded, ProcessMemory& where) {
  for (const SnapshotSegment& segment : workload_.initial_segments)
    adopt(segment, as_recorded && !segment.is_expandable);
  where.initial_segments = allocator_.snapshot();
  for (const auto& [recorded, block] : adopted_) where.older_blocks.emplace(recorded, allocator_.address(block));
  static_cast<void>(memory_.take());  // these are initial_segments
}

BlockHandle StepMemory::malloc(Bytes bytes, StreamId on, PoolId pool, BlockRecord what) {
  if (capturing_ && pool == kDefaultPool) pool = graph_pool_;
  what.pool = pool;
  if (recorder_.records_blocks()) recorder_.expect_block(what);
  returns_.next_allocation();
  const auto block = allocator_.malloc(bytes, on == kComputeStream ? current_ : on, pool);
  if (!block) throw AllocationFailed{block.error()};
  if (recorder_.records_blocks()) recorder_.block_made(allocator_.block_size(*block));
  return *block;
}

void StepMemory::free(BlockHandle block) {
  returns_.next_free();
  allocator_.free(block);
}

void StepMemory::begin_capture() {
  constexpr Bytes kGeneratorState = sizeof(std::int64_t);
  allocator_.empty_cache();
  BlockRecord state;
  state.category = MemoryCategory::workspaces;
  state.step = step_;
  for (int i = 0; i < 2; ++i) malloc(kGeneratorState, kComputeStream, kDefaultPool, state);
  graph_pool_ = allocator_.create_pool({.of_capture = true});
  capturing_ = true;
}

GraphPool StepMemory::graph_pool() const {
  GraphPool pool;
  if (!graph_pool_.valid()) return pool;
  for (const SnapshotSegment& segment : allocator_.snapshot()) {
    if (segment.pool_id.first != graph_pool_.value) continue;
    pool.reserved += segment.total_size;
    pool.active += segment.active_size;
  }
  return pool;
}

Allocation StepMemory::allocate(const BufferRequest& request) {
  if (request.bytes == 0) return {};
  const ParamGroupPlan& group = plans_[request.group.unit.value].groups[request.group.index];
  BlockRecord what;
  what.category = category_of(request.buffer, group.casts_back);
  what.unit = request.group.unit;
  what.parameter = request.parameter;
  what.step = step_;
  const std::int64_t segments = allocator_.statistics().num_device_alloc;
  buffers_.push_back(
      {malloc(request.bytes, streams_[request.stream], pools_.pool_of(request.memory, allocator_), what), {}});
  return {BufferRef{static_cast<std::uint32_t>(buffers_.size() - 1)},
          allocator_.statistics().num_device_alloc != segments};
}

void StepMemory::free(BufferRef buffer) {
  if (!buffer.valid()) return;
  const BufferEntry& entry = buffers_[buffer.value];
  free(entry.block);
  if (entry.gradient_of.valid()) gradients_[entry.gradient_of.value] = {};
}

void StepMemory::record_stream(BufferRef buffer, StreamId stream) {
  if (buffer.valid()) allocator_.record_stream(buffers_[buffer.value].block, stream);
}

std::optional<BufferRef> StepMemory::gradient(ParameterId parameter) {
  Gradient& gradient = gradients_[parameter.value];
  if (!gradient.block.valid()) return std::nullopt;
  if (!gradient.buffer.valid()) {
    buffers_.push_back({gradient.block, parameter});
    gradient.buffer = BufferRef{static_cast<std::uint32_t>(buffers_.size() - 1)};
  }
  return gradient.buffer;
}

void StepMemory::begin_program(std::int32_t step) {
  step_ = step;
  programs_.begin(step);
}

BlockHandle StepMemory::allocate(const Op& op, const AllocationName& called, Bytes bytes, StreamId on) {
  BlockRecord what;
  what.category = op.gradient_of.valid() ? MemoryCategory::gradients : op.category;
  what.parameter = op.gradient_of.valid() ? op.gradient_of : op.size.parameter;
  what.label = op.label;
  what.op = called.op;
  what.module = called.module;
  what.step = step_;
  const bool symmetric = op.gradient_of.valid() && symmetric_gradients_[op.gradient_of.value];
  return malloc(bytes, on, symmetric ? pools_.pool_of(MemoryKind::symmetric, allocator_) : kDefaultPool, what);
}

void StepMemory::hold(const Op& op, BlockHandle block) {
  if (!op.gradient_of.valid()) {
    programs_.hold(op.tensor, block);
  } else if (gradients_[op.gradient_of.value].block.valid()) {
    free(block);  // autograd adds it to the gradient that is there and drops it
  } else {
    gradients_[op.gradient_of.value].block = block;
  }
}

void StepMemory::free(const Op& op) {
  if (op.before_recording) {
    if (const auto it = adopted_.find(op.size.bytes); it != adopted_.end()) {
      free(it->second);
      adopted_.erase(it);
    }
    return;
  }
  const BlockHandle block = programs_.take(op);
  if (!block.valid()) return;
  if (op.user_stream != 0) allocator_.record_stream(block, streams_.user(op.user_stream));
  free(block);
}

BlockHandle StepMemory::allocate(Bytes bytes, MemoryCategory category, ParameterId parameter, StreamId on) {
  BlockRecord what;
  what.category = category;
  what.parameter = parameter;
  what.step = step_;
  return malloc(bytes, on, kDefaultPool, what);
}

}  // namespace foreshard
