// The collectives of one group of ranks, by every transport: NCCL plain, registered, symmetric and on copy engines, and
// our own low-contention ones; with the memory that each of them wants, and an account of what really ran.
//
// Who: gpu/cuda's Device (create_communicator, collective) and the probe. Thread safety: one thread at a time, except
// abort(). All calls but release(), health(), paths() and counters() are collective over the group, create() over all
// ranks of the exchange: the same calls with the same sizes in the same order.
//
// A rank that dies: NCCL's waits end by abort(), our own too (SymmMemCollectives::abandon). Nothing here waits without
// an end for a peer on the host except NCCL's own calls, which abort() from another thread ends.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/device/transport_choice.hpp"
#include "gpu/bootstrap/bootstrap.hpp"
#include "gpu/collectives/nccl_group.hpp"
#include "gpu/collectives/path.hpp"
#include "gpu/collectives/replayable_collectives.hpp"
#include "gpu/collectives/symm_mem_collectives.hpp"
#include "gpu/collectives/symmetric_heap.hpp"

namespace foreshard::gpu {

struct CommunicatorSettings {
  std::string name = "world";
  std::vector<std::uint32_t> members;  ///< global ranks of this rank's group, in order; contains this rank
  std::vector<Transport> transports{Transport::nccl};  ///< that issue() may be asked for
  SymmMemTuning own;
  std::chrono::milliseconds timeout{60'000};  ///< for making each NCCL communicator
  bool captured = false;                      ///< streams of issue() may be captured into a CUDA graph
  bool trace_paths = true;  ///< capture each kind and transport once, to see what runs; false: believe the chosen
};

/// Memory that a transport wants is allocated and registered once and reused.
struct PoolCounters {
  std::uint64_t acquired = 0;    ///< calls of acquire()
  std::uint64_t reused = 0;      ///< … that found a free segment
  std::uint64_t registered = 0;  ///< registrations with NCCL, or mappings of a symmetric allocation
  Bytes bytes = 0;               ///< held now, in use or free
};

class Communicator {
 public:
  /// On the current device. `exchange` and `heap` outlive it; a null heap (GPUs without peer memory) leaves out our own
  /// transport. Errors: members without this rank, NCCL's, no memory for the own transport's staging.
  [[nodiscard]] static Result<std::unique_ptr<Communicator>> create(Bootstrap& bootstrap, SymmetricHeap* heap,
                                                                    CommunicatorSettings settings);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Puts one collective on `stream` and returns; when the stream goes on, the output is there and the input is free.
  /// On a stream that is being captured it becomes part of the graph, each of whose launches on all ranks repeats it.
  /// Errors: a transport that settings.transports lacks, a capture without settings.captured, addresses that are 0, a
  /// size that does not divide by ranks and itemsize, an output_dtype where NCCL has to serve the call, the library's.
  [[nodiscard]] Result<void> issue(const CollectiveWork& work, cudaStream_t stream);

  /// Memory of the kind that `transport` wants, of at least `bytes`: a free segment of the pool, or a new one that is
  /// registered. Stays registered until the communicator ends. Errors: out of memory (that kind).
  [[nodiscard]] Result<void*> acquire(Transport transport, Bytes bytes);
  /// Gives memory of acquire() to the pool. The caller has seen to it that no stream of any rank uses it any more.
  [[nodiscard]] Result<void> release(void* memory);

  /// Errors that came up since: NCCL's asynchronous ones.
  [[nodiscard]] Result<void> health();
  /// Gives the group up: every wait on this rank ends, every later call fails. From any thread.
  void abort();

  /// What ran, by kind and the transport asked for; in the order of the enums.
  [[nodiscard]] std::vector<PathReport> paths() const;
  [[nodiscard]] const PoolCounters& counters() const { return counters_; }
  /// SymmMemCollectives'; none without it.
  [[nodiscard]] std::uint32_t resident_items() const { return own_ == nullptr ? 0 : own_->resident_items(); }
  [[nodiscard]] ItemTime item_time(std::uint32_t number) const { return own_->item_time(number); }
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(settings_.members.size()); }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  /// Device memory of the own transport outside any pool: flags and staging.
  [[nodiscard]] Bytes fixed_bytes() const {
    return (own_ == nullptr ? 0 : own_->fixed_bytes()) + (replayable_ == nullptr ? 0 : replayable_->fixed_bytes());
  }

 private:
  struct Segment {
    Address base = 0;
    Bytes bytes = 0;
    Transport transport = Transport::nccl;
    bool free = false;
    std::optional<NcclRegistration> registration;
  };

  Communicator(Bootstrap& bootstrap, SymmetricHeap* heap, CommunicatorSettings settings, std::uint32_t rank);
  [[nodiscard]] Result<void> set_up();
  [[nodiscard]] Result<std::string> agree_on_id(const std::string& what);
  [[nodiscard]] bool wants(Transport transport) const;
  [[nodiscard]] NcclGroup* group_of(Transport transport) { return groups_[static_cast<std::size_t>(transport)].get(); }
  [[nodiscard]] bool held(Transport transport, Address address, Bytes bytes) const;
  [[nodiscard]] Result<Segment> allocate(Transport transport, Bytes bytes);
  void give_back(Segment& segment);
  [[nodiscard]] TransportFacts facts(const CollectiveWork& work) const;
  [[nodiscard]] Result<void> issue_own(const CollectiveWork& work, cudaStream_t stream);
  [[nodiscard]] Result<void> issue_tensors(const CollectiveWork& work, PathReport& report, cudaStream_t stream);
  [[nodiscard]] Result<void> capture_own(const CollectiveWork& work, cudaStream_t stream);
  [[nodiscard]] PathReport& account(const CollectiveWork& work, const TransportChoice& chosen);

  Bootstrap& bootstrap_;
  SymmetricHeap* heap_;
  CommunicatorSettings settings_;
  std::uint32_t rank_;  ///< in the group
  bool one_host_ = true;
  /// By Transport; null for those outside NCCL and those that nobody wants.
  std::array<std::unique_ptr<NcclGroup>, kEnumSize<Transport>> groups_;
  std::unique_ptr<SymmMemCollectives> own_;
  std::unique_ptr<ReplayableCollectives> replayable_;  ///< of own_'s calls that are captured
  bool gather_traced_ = false;                         ///< own_'s all-gather by copies, for its PathReport
  std::atomic<bool> given_up_{false};
  std::vector<Segment> segments_;  ///< by base
  PoolCounters counters_;
  std::map<std::pair<CollectiveKind, Transport>, PathReport> paths_;
};

}  // namespace foreshard::gpu
