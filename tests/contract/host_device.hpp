// A back end that really computes, on the host: every op at the moment of its issue, one thread a rank.
//
// Who: tests that run whole steps with real numbers and no GPU. Running each op when it is issued is one of the orders
// that streams and events allow, so what it computes is what a correct schedule computes. Collectives meet the other
// ranks of a HostWorld; all ranks must be run at once, or they wait for ever.
#pragma once

#include <algorithm>
#include <barrier>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"

namespace foreshard {

/// Where the ranks of one run meet.
class HostWorld {
 public:
  struct Group {
    explicit Group(std::size_t ranks) : inputs(ranks), tensors(ranks), meeting(static_cast<std::ptrdiff_t>(ranks)) {}
    std::vector<Address> inputs;
    std::vector<std::span<const ShardedTensor>> tensors;
    std::barrier<> meeting;
  };
  Group& group(const std::vector<std::uint32_t>& members) {
    const std::scoped_lock lock(mutex_);
    auto& group = groups_[members];
    if (!group) group = std::make_unique<Group>(members.size());
    return *group;
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<std::uint32_t>, std::unique_ptr<Group>> groups_;
};

/// Gives a block to the next HostMemory that wants as much: to map and fault in each segment anew took half of the time
/// of the tests.
struct RecycleBlock {
  Bytes size = 0;
  void operator()(void* block) const;
};

/// Host memory; what allocate() gives is filled with NaNs so that what is read before it was written shows.
class HostMemory final : public DeviceMemory {
 public:
  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override;
  void release(Address address) override;
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override { return {capacity_ - std::min(held_, capacity_), capacity_}; }
  /// Whether the address lies in a range of allocate() that was not given back.
  [[nodiscard]] bool holds(Address address) const;
  /// Nothing more is given once so many bytes are held.
  void limit(Bytes capacity) { capacity_ = capacity; }
  [[nodiscard]] Bytes held() const { return held_; }
  /// How many ranges were given back.
  [[nodiscard]] std::uint64_t freed() const { return freed_; }

 private:
  struct Block {
    std::unique_ptr<void, RecycleBlock> memory;
    Bytes size = 0;
  };
  Bytes capacity_ = 64 * kGiB;
  Bytes held_ = 0;
  std::uint64_t freed_ = 0;
  std::map<Address, Block> blocks_;
  std::map<Address, Bytes> reserved_;
};

class HostDevice final : public Device {
 public:
  /// `memory`: what operands must lie in; unwatched without one.
  HostDevice(HostWorld& world, std::uint32_t rank, const HostMemory* memory = nullptr)
      : world_(world), rank_(rank), memory_(memory) {}

  EventId record_event(StreamId) override { return EventId{events_++}; }
  [[nodiscard]] bool event_complete(EventId) override { return true; }
  void synchronize_event(EventId) override {}
  StreamId create_stream(const StreamOptions&) override { return StreamId{++streams_}; }
  CommunicatorId create_communicator(const CommunicatorOptions& options) override;
  using Device::launch;
  /// A kernel known by its cost alone does nothing: a test that runs real numbers must not meet one (launched()).
  OpId launch(StreamId stream, const KernelLaunch& kernel) override;
  OpId copy(StreamId, const CopyWork&) override { return add_op(); }
  OpId collective(StreamId, CommunicatorId communicator, const CollectiveWork& work) override;
  void stream_wait_event(StreamId, EventId) override {}
  void synchronize() override {}
  void host_work(Nanoseconds) override {}
  [[nodiscard]] Nanoseconds host_now() override { return {}; }
  [[nodiscard]] std::span<const OpTiming> timings() const override { return timings_; }
  /// Nodes run when they are issued, as everything does.
  [[nodiscard]] bool can_launch_graphs() const override { return true; }

  /// Launches so far that did not say what they compute.
  [[nodiscard]] std::uint64_t launched() const { return launched_; }
  /// Launches on memory that was given back by then. They compute nothing.
  [[nodiscard]] std::uint64_t dangling() const { return dangling_; }
  /// Every kernel computed so far, as priced.
  [[nodiscard]] const std::vector<KernelWork>& computed() const { return computed_; }

 private:
  struct Communicator {
    HostWorld::Group* group = nullptr;
    std::size_t place = 0;
    std::size_t ranks = 1;
  };
  /// What moves bytes and adds nothing.
  static void move_bytes(const Communicator& communicator, const CollectiveWork& work);
  /// CollectiveWork::tensors.
  static void move_tensors(Communicator& communicator, const CollectiveWork& work);
  OpId add_op() {
    timings_.emplace_back();
    return OpId{static_cast<std::uint32_t>(timings_.size() - 1)};
  }

  HostWorld& world_;
  std::uint32_t rank_;
  const HostMemory* memory_;
  std::uint32_t events_ = 0;
  std::uint32_t streams_ = 0;
  std::uint64_t launched_ = 0;
  std::uint64_t dangling_ = 0;
  std::vector<KernelWork> computed_;
  std::vector<Communicator> communicators_;
  std::vector<OpTiming> timings_;
};

}  // namespace foreshard
