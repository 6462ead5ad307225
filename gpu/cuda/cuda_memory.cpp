#include "gpu/cuda/cuda_memory.hpp"

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kSmallPage = 2 * kMiB;  // the granularity of device memory on every GPU since Volta

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT: a device address
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

Result<std::unique_ptr<CudaMemory>> CudaMemory::create(const CudaMemoryOptions& options) {
  int device = 0;
  FORESHARD_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
  FORESHARD_TRY(check(cudaFree(nullptr), "cudaFree (makes the context)"));
  const auto loaded = driver();
  FORESHARD_TRY(loaded);
  return std::unique_ptr<CudaMemory>(new CudaMemory(options, **loaded, device));
}

CudaMemory::CudaMemory(const CudaMemoryOptions& options, const Driver& driver, int device)
    : options_(options), driver_(driver), device_(device) {}

CudaMemory::~CudaMemory() {
  try {
    static_cast<void>(cudaDeviceSynchronize());
    while (!allocations_.empty()) free(allocations_.begin()->first);
    while (!ranges_.empty()) release(ranges_.begin()->first);
  } catch (const DeviceFailure&) {
    // The device failed before: that error is on its way already, and the process's end gives the memory back.
  }
}

std::optional<Address> CudaMemory::allocate_now(MemoryKind kind, Bytes size) {
  void* memory = nullptr;
  if (kind != MemoryKind::device) {
    if (options_.groups == nullptr)
      throw DeviceFailure(
          {ErrorKind::usage, "registered or symmetric memory is asked of a GPU without groups", {}, {}});
    const auto made = options_.groups->acquire(kind, size);
    if (!made && made.error().kind == ErrorKind::out_of_memory) return {};
    memory = require(made);
  } else {
    const cudaError_t code = cudaMalloc(&memory, size);
    if (code == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // an answer, not a failure: clear it
      return {};
    }
    require(code, "cudaMalloc");
  }
  return reinterpret_cast<Address>(memory);
}

std::optional<Address> CudaMemory::allocate(MemoryKind kind, Bytes size) {
  if (over_limit(size)) return {};
  const auto address = allocate_now(kind, size);
  if (!address) return {};
  allocations_.emplace(*address, Allocation{kind, size});
  used_ += size;
  return address;
}

void CudaMemory::free_now(Address address, const Allocation& allocation) {
  if (allocation.kind != MemoryKind::device) {
    require(options_.groups->release(allocation.kind, pointer(address)));
  } else {
    require(cudaFree(pointer(address)), "cudaFree");
  }
}

void CudaMemory::free(Address address) {
  const auto it = allocations_.find(address);
  FORESHARD_CHECK(it != allocations_.end(), "memory is freed that was not allocated");
  const Allocation allocation = it->second;
  allocations_.erase(it);
  used_ -= allocation.size;
  free_now(address, allocation);
}

std::optional<Address> CudaMemory::reserve(Bytes size) {
  CUdeviceptr address = 0;
  const Bytes whole = round_up(size, kSmallPage);
  const CUresult code = driver_.mem_address_reserve(&address, whole, 0, 0, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) return {};
  require(check(code, "cuMemAddressReserve"));
  ranges_.emplace(address, Range{whole, 0, {}});
  return address;
}

void CudaMemory::release(Address address) {
  const auto it = ranges_.find(address);
  FORESHARD_CHECK(it != ranges_.end(), "a range is released that was not reserved");
  while (!it->second.pieces.empty()) unmap_piece(it->second, it->second.pieces.begin()->first);
  require(check(driver_.mem_address_free(address, it->second.size), "cuMemAddressFree"));
  ranges_.erase(it);
}

CudaMemory::Range& CudaMemory::range_of(Address address) {
  auto it = ranges_.upper_bound(address);
  FORESHARD_CHECK(it != ranges_.begin(), "an address is not in any reserved range");
  return std::prev(it)->second;
}

bool CudaMemory::map_piece(Range& range, Address address) {
  if (over_limit(range.piece)) return false;
  const CUmemAllocationProp wanted = properties(device_);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult created = driver_.mem_create(&handle, range.piece, &wanted, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
  require(check(created, "cuMemCreate"));
  require(check(driver_.mem_map(address, range.piece, 0, handle, 0), "cuMemMap"));
  range.pieces.emplace(address, handle);
  used_ += range.piece;
  return true;
}

void CudaMemory::unmap_piece(Range& range, Address address) {
  const auto it = range.pieces.find(address);
  FORESHARD_CHECK(it != range.pieces.end(), "pages are unmapped that are not mapped, or only in part");
  require(check(driver_.mem_unmap(address, range.piece), "cuMemUnmap"));
  require(check(driver_.mem_release(it->second), "cuMemRelease"));
  range.pieces.erase(it);
  used_ -= range.piece;
}

bool CudaMemory::map(Address address, Bytes size) {
  if (size > info().free) return false;
  Range& range = range_of(address);
  if (range.piece == 0 || range.pieces.empty())
    range.piece = size % options_.large_page == 0 ? options_.large_page : kSmallPage;
  Address end = address;
  for (; end < address + size; end += range.piece) {
    if (map_piece(range, end)) continue;
    for (Address undo = address; undo < end; undo += range.piece) unmap_piece(range, undo);
    return false;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  require(check(driver_.mem_set_access(address, size, &access, 1), "cuMemSetAccess"));
  return true;
}

void CudaMemory::unmap(Address address, Bytes size) {
  // As PyTorch: work that still uses the pages, on whatever stream, has to be over (ExpandableSegment::unmapHandles).
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  Range& range = range_of(address);
  for (Address at = address; at < address + size; at += range.piece) unmap_piece(range, at);
}

MemoryInfo CudaMemory::info() const {
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  MemoryInfo info{free, total};
  if (options_.limit) info.free = std::min<Bytes>(info.free, *options_.limit - std::min(*options_.limit, used_));
  return info;
}

}  // namespace foreshard::gpu
