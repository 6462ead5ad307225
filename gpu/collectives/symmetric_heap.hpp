// Symmetric memory: the same allocations on every rank of a host, each rank's copy mapped into all of their processes.
//
// Who: gpu/collectives' own transports; gpu/cuda allocates its buffers of kind `symmetric` here. Physical memory comes
// from cuMemCreate with POSIX file descriptors (what ncclCommWindowRegister asks for too); no multicast object is ever
// made. Thread safety: one thread at a time. allocate() and release() are collective over the ranks of the host: all
// make the same calls with the same sizes in the same order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "gpu/bootstrap/bootstrap.hpp"

namespace foreshard::gpu {

struct HeapCounters {
  std::uint64_t allocations = 0;  ///< so far
  std::uint64_t releases = 0;     ///< so far
  Bytes bytes = 0;                ///< held now, on this rank
  Bytes bytes_peak = 0;
};

class SymmetricHeap {
 public:
  /// On the current device. `exchange` outlives the heap. Errors: a device without virtual memory management or peer
  /// access to the other ranks' devices.
  ///
  /// `arena`: bytes of addresses that are reserved at once for each rank's copies; 0: none. Allocations follow one
  /// another in it and no address is used twice, so that a caching allocator which prefers low addresses decides alike
  /// on all ranks. allocate() fails once they are used up.
  [[nodiscard]] static Result<std::unique_ptr<SymmetricHeap>> create(Bootstrap& bootstrap, Bytes arena = 0);
  /// Unmaps what is left; not collective. The caller has seen to it that no rank uses this memory any more.
  ~SymmetricHeap();
  SymmetricHeap(const SymmetricHeap&) = delete;
  SymmetricHeap& operator=(const SymmetricHeap&) = delete;

  /// This rank's copy, whose content is undefined; `bytes` is rounded up to granularity(). Errors, the same on all
  /// ranks: a rank is out of memory (that kind), ranks ask for different sizes. On one rank alone: its memory, or
  /// another's, cannot be mapped; then in_step() is false.
  [[nodiscard]] Result<void*> allocate(Bytes bytes);
  /// False once an allocation failed on this rank alone: it cannot ask again, for the others have theirs.
  [[nodiscard]] bool in_step() const { return in_step_; }
  /// Gives memory of allocate() back, by its first address. Waits for the device and for the other ranks first.
  [[nodiscard]] Result<void> release(void* memory);

  /// Where this process sees the byte of `local_rank`'s copy that corresponds to `address` in its own copy; nothing
  /// when `address` is not of this heap. O(log allocations).
  [[nodiscard]] std::optional<Address> translate(Address address, std::uint32_t local_rank) const;
  /// Whether all of [address, address + bytes) lies in one allocation.
  [[nodiscard]] bool contains(Address address, Bytes bytes) const;

  /// Of a heap with an arena: where `address`, of this rank's copy, lies, as a number that is the same on all ranks.
  [[nodiscard]] Bytes place(Address address) const { return translate(address, 0).value_or(arena_) - arena_; }

  [[nodiscard]] Bytes granularity() const { return granularity_; }
  [[nodiscard]] const HeapCounters& counters() const { return counters_; }
  [[nodiscard]] Bootstrap& bootstrap() { return bootstrap_; }

 private:
  struct Block {
    Address base = 0;  ///< local rank 0's copy; local rank r's is at base + r * size
    Bytes size = 0;
  };

  SymmetricHeap(Bootstrap& bootstrap, int device, Bytes granularity);
  [[nodiscard]] const Block* find(Address address) const;
  [[nodiscard]] Result<void> agree(Bytes bytes, int status);
  [[nodiscard]] Result<Address> reserve(Bytes bytes);
  [[nodiscard]] Result<Block> map(Bytes size, std::uint64_t own);
  void unmap(const Block& block) const;

  Bootstrap& bootstrap_;
  int device_;
  Bytes granularity_;
  Address arena_ = 0;
  Bytes arena_bytes_ = 0;
  Bytes arena_used_ = 0;
  bool in_step_ = true;
  std::vector<Block> blocks_;  ///< by the address of this rank's copy
  HeapCounters counters_;
};

}  // namespace foreshard::gpu
