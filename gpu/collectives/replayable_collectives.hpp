// Our own collectives in a form that a CUDA graph can replay: nothing in them counts calls.
//
// Who: communicator.cpp and torch_collectives' group, for streams that are being captured. symm_mem_collectives.hpp
// writes numbers that grow with each call, which a replay would repeat. Here ranks meet by flags that are set to 1 by
// the peer and back to 0 by the rank that has waited for it, all as stream memory operations. Each call meets twice,
// before its bytes move and after; a rank sets a peer's first flag again only when it has passed the second meeting,
// for which the peer had taken the first flag down. So no flag is set while it is still up.
//
// Calls of one kind must follow each other on the device, in the same order on all ranks. Thread safety: one thread at
// a time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/collectives/call_kind.hpp"
#include "gpu/collectives/symm_mem_collectives.hpp"
#include "gpu/collectives/symmetric_heap.hpp"

namespace foreshard::gpu {

class ReplayableCollectives {
 public:
  /// `members`: the group's local ranks in group order, `rank` this process's place among them. Collective over all
  /// ranks of the host, also those of other groups. `busy`: pinned host memory, a word for each CallKind that is 1
  /// while a call is on its way; null: nobody looks. Errors: no memory, CUDA's.
  [[nodiscard]] static Result<std::unique_ptr<ReplayableCollectives>> create(SymmetricHeap& heap,
                                                                             std::vector<std::uint32_t> members,
                                                                             std::uint32_t rank, std::uint32_t* busy);
  ~ReplayableCollectives() = default;
  ReplayableCollectives(const ReplayableCollectives&) = delete;
  ReplayableCollectives& operator=(const ReplayableCollectives&) = delete;

  /// As SymmMemCollectives::all_gather.
  [[nodiscard]] Result<void> all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream);
  /// Device memory held: flags.
  [[nodiscard]] static Bytes fixed_bytes();
  /// The input lies in symmetric memory; slices up to 2 GiB. Errors: it does not (mismatch), CUDA's.
  [[nodiscard]] Result<void> reduce_scatter(const ScatterCall& call, cudaStream_t stream);

 private:
  ReplayableCollectives(SymmetricHeap& heap, std::vector<std::uint32_t> members, std::uint32_t rank,
                        std::uint32_t* busy)
      : heap_(heap), members_(std::move(members)), rank_(rank), busy_(busy) {}
  [[nodiscard]] Result<void> set_up();
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }
  /// Where `address`, of this rank's copy, lies in that of a rank of the group.
  [[nodiscard]] Address there(Address address, std::uint32_t on) const {
    return heap_.translate(address, members_[on]).value_or(0);
  }
  [[nodiscard]] Address flag(std::uint32_t on, CallKind kind, std::uint32_t meeting, std::uint32_t writer) const;
  [[nodiscard]] Result<void> meet(CallKind kind, std::uint32_t meeting, cudaStream_t stream) const;
  [[nodiscard]] Result<ReduceItem> item_of(const ScatterCall& call) const;

  SymmetricHeap& heap_;
  std::vector<std::uint32_t> members_;
  std::uint32_t rank_;
  std::uint32_t* busy_;
  Address control_ = 0;  ///< this rank's: flags, then what the kernel is given (replayable_collectives.cpp)
};

}  // namespace foreshard::gpu
