// CudaMemory: the memory of one GPU behind the caching allocator (core/device/device_memory.hpp), to the byte that is
// asked.
//
// device: cudaMalloc. registered and symmetric: what the run's groups of ranks want for their transports (groups.hpp),
// so every rank makes the same calls in the same order.
// Ranges of reserve(): the driver's virtual memory, in pieces as large as the allocator's pages, as PyTorch's
// ExpandableSegment does (c10/cuda/CUDACachingAllocator.cpp, 2.11).
//
// Out of memory is an answer; any other error of CUDA is a DeviceFailure. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/device/device_memory.hpp"
#include "gpu/cuda/device_failure.hpp"
#include "gpu/cuda/groups.hpp"

namespace foreshard::gpu {

struct CudaMemoryOptions {
  Groups* groups = nullptr;         ///< for memory of other kinds than `device`; none: that is an error. Outlives this
  std::optional<Bytes> limit = {};  ///< what allocate() and map() may take together; none: what the GPU has
  /// Page of the large pool's expandable segments (large_segment_size_mb, kLargeBuffer): the size of the pieces that
  /// ranges are mapped in. Ranges whose first mapping is no multiple of it get pieces of 2 MiB.
  Bytes large_page = 20 * kMiB;
};

class CudaMemory final : public DeviceMemory {
 public:
  /// Of the current device.
  [[nodiscard]] static Result<std::unique_ptr<CudaMemory>> create(const CudaMemoryOptions& options = {});
  /// Waits for the device, then gives back whatever is left. With symmetric memory left that is collective.
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override;
  void release(Address address) override;
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override;

  /// Of allocate() and map(), now.
  [[nodiscard]] Bytes used() const { return used_; }

 private:
  struct Allocation {
    MemoryKind kind = MemoryKind::device;
    Bytes size = 0;
  };
  struct Range {
    Bytes size = 0;
    Bytes piece = 0;                          ///< 0: nothing was mapped yet
    std::map<Address, std::uint64_t> pieces;  ///< handles (CUmemGenericAllocationHandle) by address
  };

  CudaMemory(const CudaMemoryOptions& options, const Driver& driver, int device);
  [[nodiscard]] bool over_limit(Bytes size) const { return options_.limit && used_ + size > *options_.limit; }
  [[nodiscard]] std::optional<Address> allocate_now(MemoryKind kind, Bytes size);
  void free_now(Address address, const Allocation& allocation);
  [[nodiscard]] Range& range_of(Address address);
  [[nodiscard]] bool map_piece(Range& range, Address address);
  void unmap_piece(Range& range, Address address);

  CudaMemoryOptions options_;
  const Driver& driver_;
  int device_;
  std::map<Address, Allocation> allocations_;
  std::map<Address, Range> ranges_;
  Bytes used_ = 0;
};

}  // namespace foreshard::gpu
