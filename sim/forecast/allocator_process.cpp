#include "sim/forecast/allocator_process.hpp"

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::sim {

/// The driver's memory, with a list of what it gave to which request.
class AllocatorProcess::Driver final : public DeviceMemory {
 public:
  Driver(const SimMemoryOptions& options, const AllocatorProcess& process) : memory_(options), process_(process) {}

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override {
    const auto address = memory_.allocate(kind, size);
    if (address) add(size);
    return address;
  }
  void free(Address address) override { memory_.free(address); }
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override { return memory_.reserve(size); }
  void release(Address address) override { memory_.release(address); }
  [[nodiscard]] bool map(Address address, Bytes size) override {
    const bool mapped = memory_.map(address, size);
    if (mapped) add(size);
    return mapped;
  }
  void unmap(Address address, Bytes size) override { memory_.unmap(address, size); }
  [[nodiscard]] MemoryInfo info() const override { return memory_.info(); }

  [[nodiscard]] const std::vector<SegmentGrowth>& growth() const { return growth_; }
  [[nodiscard]] bool follows_recording() const { return memory_.follows_recording(); }

 private:
  void add(Bytes size) { growth_.push_back({process_.slot_, process_.requested_, size}); }

  SimMemory memory_;
  const AllocatorProcess& process_;
  std::vector<SegmentGrowth> growth_;
};

/// Without record_stream no event is ever recorded.
class AllocatorProcess::NoEvents final : public StreamEvents {
 public:
  EventId record_event(StreamId) override { return EventId{0}; }
  [[nodiscard]] bool event_complete(EventId) override { return true; }
  void synchronize_event(EventId) override {}
};

AllocatorProcess::AllocatorProcess(const ProcessStart& start, const ProcessOptions& options)
    : driver_(std::make_unique<Driver>(options.memory, *this)),
      events_(std::make_unique<NoEvents>()),
      allocator_(options.config, *driver_, *events_, nullptr) {
  if (options.limit) allocator_.set_limit(*options.limit);
  for (const SnapshotSegment& segment : start.older) {
    std::vector<BlockHandle> blocks;
    if (options.as_recorded) {
      blocks = allocator_.adopt_segment(segment);
    } else {
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state == BlockState::inactive) continue;
        const auto made = allocator_.malloc(std::max<Bytes>(1, block.requested_size), kComputeStream);
        if (!made) {
          out_of_memory_ = made.error();
          return;
        }
        blocks.push_back(*made);
      }
    }
    older_.insert(older_.end(), blocks.begin(), blocks.end());
  }
  FORESHARD_CHECK(older_.size() == start.older_blocks.size(), "each older block has a handle");
  run_ops(start.setup);
  setup_ = slots_;
}

AllocatorProcess::~AllocatorProcess() = default;

bool AllocatorProcess::malloc(const AllocationOp& op, Bytes bytes) {
  slot_ = op.index;
  requested_ = bytes;
  const AllocatorStatistics& now = allocator_.statistics();
  const std::int64_t before = now.num_device_free + now.num_alloc_retries;
  const auto block = allocator_.malloc(bytes, StreamId{op.stream}, pools_.pool_of(op.memory, allocator_));
  if (now.num_device_free + now.num_alloc_retries != before) retried_.push_back(op.index);
  if (!block) {
    out_of_memory_ = block.error();
    return false;
  }
  slots_[op.index] = *block;
  return true;
}

void AllocatorProcess::free(const AllocationOp& op) {
  switch (op.kind) {
    case AllocationOp::Kind::malloc:
      break;
    case AllocationOp::Kind::free:
      allocator_.free(slots_[op.index]);
      break;
    case AllocationOp::Kind::free_carried:
      allocator_.free(carried_[op.index]);
      break;
    case AllocationOp::Kind::free_setup:
      allocator_.free(setup_[op.index]);
      break;
    case AllocationOp::Kind::free_older:
      allocator_.free(older_[op.index]);
      break;
  }
}

bool AllocatorProcess::run_ops(const AllocationProgram& program) {
  slots_.resize(program.sizes.size());
  for (const AllocationOp& op : program.shape->ops) {
    if (op.kind != AllocationOp::Kind::malloc)
      free(op);
    else if (!malloc(op, program.sizes[op.index]))
      return false;
  }
  return true;
}

bool AllocatorProcess::run(const AllocationProgram& program) {
  FORESHARD_CHECK(!out_of_memory_, "a process that ran out of memory has ended");
  retried_.clear();
  retries_before_ = allocator_.statistics().num_alloc_retries;
  freed_before_ = allocator_.statistics().num_device_free;
  allocator_.reset_peak_statistics();
  if (!run_ops(program)) return false;
  carried_.clear();
  for (const std::uint32_t slot : program.shape->carried) carried_.push_back(slots_[slot]);
  return true;
}

bool AllocatorProcess::empty_cache() {
  const std::int64_t before = driver_frees();
  allocator_.empty_cache();
  return driver_frees() != before;
}

StepUse AllocatorProcess::use() const {
  const AllocatorStatistics& now = allocator_.statistics();
  StepUse use;
  use.reserved = static_cast<Bytes>(now.all.reserved_bytes.current);
  use.peak_reserved = static_cast<Bytes>(now.all.reserved_bytes.peak);
  use.peak_allocated = static_cast<Bytes>(now.all.allocated_bytes.peak);
  use.retries = static_cast<std::int32_t>(now.num_alloc_retries - retries_before_);
  use.released = static_cast<std::int32_t>(now.num_device_free - freed_before_);
  return use;
}

const std::vector<SegmentGrowth>& AllocatorProcess::growth() const {
  return driver_->growth();
}

bool AllocatorProcess::follows_recording() const {
  return driver_->follows_recording();
}

}  // namespace foreshard::sim
