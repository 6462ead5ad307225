// The groups of ranks that one run's collectives go over, and the memory that their transports want.
//
// Who: execution.cpp and the probe; CudaDevice asks for groups, CudaMemory for memory. Groups live as long as this,
// over several devices, because making one takes NCCL a second. Thread safety: one thread, except abort().
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device/device_memory.hpp"
#include "core/settings/settings.hpp"
#include "gpu/collectives/communicator.hpp"
#include "gpu/cuda/cuda_device.hpp"

namespace foreshard::gpu {

struct GroupPath {
  std::string group;
  PathReport path;
};

class Groups {
 public:
  /// `exchange` outlives this. `transports`: those that collectives may ask for. GPUs without peer memory do without
  /// our own transport; heap_caveat() says why.
  /// `captured`: a CUDA graph may take collectives in.
  Groups(Bootstrap& bootstrap, std::vector<Transport> transports, bool captured = false);
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// What CudaDevice makes a group with. Collective over all ranks of the exchange. A group of the same name and
  /// members is made once.
  [[nodiscard]] Result<GroupCollectives> group(const CommunicatorOptions& options);

  /// Memory of a kind other than `device`, registered with the first group that was made (the one that shards); before
  /// any is made, as it comes. Collective. Errors: out of memory (that kind), and whatever else NCCL or CUDA say.
  [[nodiscard]] Result<void*> acquire(MemoryKind kind, Bytes bytes);
  [[nodiscard]] Result<void> release(MemoryKind kind, void* memory);

  /// NCCL's asynchronous errors, and whether abort() was called.
  [[nodiscard]] Result<void> health();
  /// Ends every wait on this rank; from any thread.
  void abort();

  [[nodiscard]] std::vector<GroupPath> paths() const;
  /// Of all groups together.
  [[nodiscard]] PoolCounters counters() const;
  /// Device memory of our own transport: flags and staging.
  [[nodiscard]] Bytes fixed_bytes() const;
  [[nodiscard]] const std::string& heap_caveat() const { return heap_caveat_; }

 private:
  /// The transport that symmetric memory is registered for: NCCL's, where one of them is asked for, else our own.
  [[nodiscard]] Transport symmetric_transport() const;

  Bootstrap& bootstrap_;
  std::vector<Transport> transports_;
  bool captured_;
  std::unique_ptr<SymmetricHeap> heap_;
  std::string heap_caveat_;
  std::map<std::string, std::unique_ptr<Communicator>> by_name_;  // name and members
  Communicator* first_ = nullptr;
  std::set<void*> loose_;  // of acquire() without a group
  std::mutex mutex_;       // of the two below
  std::vector<Communicator*> to_abort_;
  bool aborted_ = false;
};

/// The transports that a run under `settings` asks for; plain NCCL is always there.
[[nodiscard]] std::vector<Transport> transports_of(const Settings& settings);

}  // namespace foreshard::gpu
