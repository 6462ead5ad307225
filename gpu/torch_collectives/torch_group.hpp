// Our own collectives for one process group of PyTorch: symmetric memory for its caching allocator, all-gathers and
// reduce-scatters on its streams, and the word that a rank is lost.
//
// Who: c_interface.cpp. The group's ranks are processes of one host, each with a GPU of its own. Order: calls of one
// kind follow each other on the device, whatever streams they are put on. Streams that are being captured into a CUDA
// graph get the form that can be replayed. Thread safety: any thread; calls wait for each other, watch() for nobody.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/collectives/replayable_collectives.hpp"
#include "gpu/collectives/symm_mem_collectives.hpp"
#include "gpu/collectives/symmetric_heap.hpp"
#include "gpu/torch_collectives/call_records.hpp"
#include "gpu/torch_collectives/peer_sockets.hpp"
#include "gpu/torch_collectives/progress_timers.hpp"

namespace foreshard::gpu {

struct TorchGroupSettings {
  std::uint32_t rank = 0;  ///< in the group
  std::uint32_t ranks = 1;
  int device = 0;
  ProgressLimits limits;  ///< its timeout also for a rank to come to an allocation
  /// For a rank to come to connect(), where all are at the same place; half of the timeout where that is less.
  std::chrono::milliseconds connect{30'000};
};

class TorchGroup {
 public:
  /// Listens. Errors: no driver, no such device, one that the build has no kernels for, the operating system's.
  [[nodiscard]] static Result<std::unique_ptr<TorchGroup>> open(const TorchGroupSettings& settings);
  ~TorchGroup();
  TorchGroup(const TorchGroup&) = delete;
  TorchGroup& operator=(const TorchGroup&) = delete;

  [[nodiscard]] std::uint32_t ranks() const { return settings_.ranks; }
  /// What the other ranks pass to connect().
  [[nodiscard]] const std::string& address() const { return sockets_->address(); }
  /// Collective, with every rank's address() by rank. Errors: no peer access, a rank that does not come. Then the group
  /// is of no use on this rank, and the others may not know: they have to agree on it.
  [[nodiscard]] Result<void> connect(const std::vector<std::string>& addresses);

  /// Symmetric memory. Collective: all ranks ask for the same sizes in the same order. Stays until the group ends.
  /// Errors: out_of_memory on all ranks where one has none, after which it may be asked for again; any other (a rank
  /// ended, did not come, asked for something else) is final: each call after it fails with it at once.
  [[nodiscard]] Result<void*> allocate(Bytes bytes);
  [[nodiscard]] bool contains(const void* memory, Bytes bytes);

  /// SymmMemCollectives's, of memory of allocate(). Also errors: a rank has ended, or uses another buffer.
  [[nodiscard]] Result<void> all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream);
  [[nodiscard]] Result<void> reduce_scatter(const ScatterCall& call, cudaStream_t stream);

  /// Returns after `time`; before that with an error when the group is lost (progress_timers.hpp), and at once from
  /// then on. Streams go on waiting, so that nothing runs on what never came; calls are refused. Touches no CUDA.
  [[nodiscard]] Result<void> watch(std::chrono::milliseconds time);

 private:
  /// Pinned: how far the device is.
  struct Progress;
  /// Calls of one kind.
  struct Lane {
    cudaEvent_t last = nullptr;           ///< the end of the last call that was not captured
    cudaEvent_t last_captured = nullptr;  ///< … of the last one in `capture`
    cudaStream_t stream = nullptr;        ///< of the last call
    unsigned long long capture = 0;       ///< of the last call; 0: it was not captured
    std::uint32_t calls = 0;              ///< not captured
  };

  explicit TorchGroup(const TorchGroupSettings& settings)
      : settings_(settings), timers_(settings.rank, settings.limits) {}
  [[nodiscard]] Result<void> usable();
  template <class Eager, class Captured>
  [[nodiscard]] Result<void> issue(const CallRecord& record, cudaStream_t stream, Eager eager, Captured captured);
  [[nodiscard]] Result<void> follow(Lane& lane, cudaStream_t stream, unsigned long long capture);
  [[nodiscard]] Result<void> finish(Lane& lane, CallKind kind, cudaStream_t stream, unsigned long long capture);
  [[nodiscard]] GroupProgress progress() const;

  TorchGroupSettings settings_;
  std::mutex mutex_;  ///< of all below but what watch() reads
  std::unique_ptr<PeerSockets> sockets_;
  std::unique_ptr<CallRecords> records_;
  std::unique_ptr<SymmetricHeap> heap_;
  std::unique_ptr<SymmMemCollectives> eager_;
  std::unique_ptr<ReplayableCollectives> replayable_;
  std::array<Lane, kCallKinds> lanes_;
  Progress* progress_ = nullptr;
  std::array<std::atomic<std::uint32_t>, kCallKinds> issued_{};
  std::atomic<std::uint32_t> refused_{0};  ///< calls, because a rank has ended
  std::atomic<bool> lost_{false};
  std::optional<Error> unallocatable_;  ///< why no memory is allocated any more
  ProgressTimers timers_;               ///< watch()'s own
};

}  // namespace foreshard::gpu
