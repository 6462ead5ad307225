#include "sim/forecast/allocator_process.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/machine/timed_memory.hpp"

namespace foreshard::sim {

/// The driver's memory, with a list of what it gave to which request.
class AllocatorProcess::Driver final : public DeviceMemory {
 public:
  Driver(const ProcessOptions& options, const AllocatorProcess& process)
      : memory_(options.memory),
        timed_(memory_, options.calls, options.config.large_segment_size,
               [this](const TimedMemory::Call& call) { time_ += call.time; }),
        process_(process) {}

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override {
    const auto address = asked().allocate(kind, size);
    if (address) add(size);
    return address;
  }
  void free(Address address) override { asked().free(address); }
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override { return asked().reserve(size); }
  void release(Address address) override { asked().release(address); }
  [[nodiscard]] bool map(Address address, Bytes size) override {
    const bool mapped = asked().map(address, size);
    if (mapped) add(size);
    return mapped;
  }
  void unmap(Address address, Bytes size) override { asked().unmap(address, size); }
  [[nodiscard]] MemoryInfo info() const override { return memory_.info(); }

  [[nodiscard]] const std::vector<SegmentGrowth>& growth() const { return growth_; }
  [[nodiscard]] bool follows_recording() const { return memory_.follows_recording(); }
  [[nodiscard]] std::size_t calls() const { return calls_; }  ///< that change something
  [[nodiscard]] Nanoseconds time() const { return time_; }

 private:
  TimedMemory& asked() {
    ++calls_;
    return timed_;
  }
  void add(Bytes size) { growth_.push_back({process_.slot_, process_.requested_, size}); }

  SimMemory memory_;
  TimedMemory timed_;
  Nanoseconds time_;
  const AllocatorProcess& process_;
  std::vector<SegmentGrowth> growth_;
  std::size_t calls_ = 0;
};

/// Without record_stream no event is ever recorded.
class AllocatorProcess::NoEvents final : public StreamEvents {
 public:
  EventId record_event(StreamId) override { return EventId{0}; }
  [[nodiscard]] bool event_complete(EventId) override { return true; }
  void synchronize_event(EventId) override {}
};

AllocatorProcess::AllocatorProcess(const ProcessStart& start, const ProcessOptions& options)
    : driver_(std::make_unique<Driver>(options, *this)),
      events_(std::make_unique<NoEvents>()),
      allocator_(options.config, *driver_, *events_, nullptr),
      knows_steps_(!options.limit || options.config.garbage_collection_threshold <= 0) {
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
          use_ = measured();
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
  use_ = measured();
  known_.begin_at(state());
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
  carried_.clear();
  for (const std::uint32_t slot : program.shape->carried) carried_.push_back(slots_[slot]);
  return true;
}

bool AllocatorProcess::run(const AllocationProgram& program) {
  FORESHARD_CHECK(!out_of_memory_, "a process that ran out of memory has ended");
  retried_.clear();
  const KnownSteps::Step* known = known_.find(program);
  if (known == nullptr) return simulate(program);
  use_ = known->use;
  known_.skip(program, *known);
  return true;
}

bool AllocatorProcess::simulate(const AllocationProgram& program) {
  catch_up();
  const std::size_t asked = driver_->calls();
  retries_before_ = allocator_.statistics().num_alloc_retries;
  freed_before_ = allocator_.statistics().num_device_free;
  allocator_.reset_peak_statistics();
  const bool fits = run_ops(program);
  use_ = measured();
  if (!fits || !knows_steps_) return fits;
  if (driver_->calls() == asked)
    known_.add(program, state(), use_);
  else
    known_.begin_at(state());
  return true;
}

/// The process goes where known steps have led.
void AllocatorProcess::catch_up() {
  const std::vector<const AllocationProgram*> way = known_.take_way();
  for (const AllocationProgram* program : way)
    FORESHARD_CHECK(run_ops(*program), "a step that asked the driver for nothing runs again");
  FORESHARD_CHECK(way.empty() || known_.is_here(state()), "known steps lead where they led before");
}

bool AllocatorProcess::empty_cache() {
  catch_up();
  const std::int64_t before = driver_frees();
  allocator_.empty_cache();
  if (knows_steps_) known_.begin_at(state());
  return driver_frees() != before;
}

/// Blocks, and in which of them what the next step frees lies.
LayoutDigest AllocatorProcess::state() const {
  LayoutDigest digest = allocator_.layout();
  for (std::size_t i = 0; i < carried_.size(); ++i) digest.add({i, allocator_.address(carried_[i])});
  return digest;
}

StepUse AllocatorProcess::measured() const {
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

Nanoseconds AllocatorProcess::driver_time() const {
  return driver_->time();
}

bool AllocatorProcess::follows_recording() const {
  return driver_->follows_recording();
}

}  // namespace foreshard::sim
