#include "gpu/collectives/symmetric_heap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

/// What each rank tells the others before memory is shared.
struct Request {
  Bytes bytes = 0;
  int status = 0;  // cuMemCreate's
};

void close_all(const std::vector<int>& descriptors) {
  for (const int descriptor : descriptors)
    if (descriptor >= 0) ::close(descriptor);
}

}  // namespace

SymmetricHeap::SymmetricHeap(Bootstrap& bootstrap, int device, Bytes granularity)
    : bootstrap_(bootstrap), device_(device), granularity_(granularity) {}

Result<std::unique_ptr<SymmetricHeap>> SymmetricHeap::create(Bootstrap& bootstrap, Bytes arena) {
  const Result<const Driver*> api = driver();
  FORESHARD_TRY(api);
  int device = 0;
  FORESHARD_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
  FORESHARD_TRY(check(cudaFree(nullptr), "cudaFree"));  // makes the context that the driver's calls need
  int virtual_memory = 0;
  FORESHARD_TRY(check((*api)->device_get_attribute(
                          &virtual_memory, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device),
                      "cuDeviceGetAttribute"));
  if (virtual_memory == 0)
    return fail(ErrorKind::mismatch, fmt::format("GPU {} cannot share memory by file descriptors", device));
  const CUmemAllocationProp prop = properties(device);
  std::size_t granularity = 0;
  FORESHARD_TRY(
      check((*api)->mem_granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "cuMemGetGranularity"));
  std::unique_ptr<SymmetricHeap> heap(new SymmetricHeap(bootstrap, device, granularity));
  if (arena == 0) return heap;
  const Bytes bytes = (arena + granularity - 1) / granularity * granularity * bootstrap.local_ranks();
  CUdeviceptr base = 0;
  FORESHARD_TRY(check((*api)->mem_address_reserve(&base, bytes, 0, 0, 0), "cuMemAddressReserve"));
  heap->arena_ = base;
  heap->arena_bytes_ = bytes;
  return heap;
}

SymmetricHeap::~SymmetricHeap() {
  for (const Block& block : blocks_) unmap(block);
  if (arena_ != 0) (void)(*driver())->mem_address_free(arena_, arena_bytes_);
}

Result<Address> SymmetricHeap::reserve(Bytes bytes) {
  if (arena_ == 0) {
    CUdeviceptr base = 0;
    FORESHARD_TRY(check((*driver())->mem_address_reserve(&base, bytes, 0, 0, 0), "cuMemAddressReserve"));
    return base;
  }
  if (bytes > arena_bytes_ - arena_used_)
    return fail(ErrorKind::out_of_memory, fmt::format("the addresses of {} bytes of symmetric memory are used up",
                                                      arena_bytes_ / bootstrap_.local_ranks()));
  arena_used_ += bytes;
  return arena_ + arena_used_ - bytes;
}

Result<void> SymmetricHeap::agree(Bytes bytes, int status) {
  const Request mine{bytes, status};
  std::string text(sizeof mine, '\0');
  std::memcpy(text.data(), &mine, sizeof mine);
  const std::string what = fmt::format("symmetric allocation {}", counters_.allocations);
  const auto all = bootstrap_.all_gather(what, text);
  FORESHARD_TRY(all);
  const std::uint32_t first = bootstrap_.rank() - bootstrap_.local_rank();
  for (std::uint32_t r = first; r < first + bootstrap_.local_ranks(); ++r) {
    Request theirs;
    if ((*all)[r].size() != sizeof theirs)
      return fail(ErrorKind::mismatch, fmt::format("rank {} came to '{}' with something else", r, what));
    std::memcpy(&theirs, (*all)[r].data(), sizeof theirs);
    if (theirs.bytes != bytes)
      return fail(ErrorKind::mismatch, fmt::format("rank {} asks for {} bytes of symmetric memory, rank {} for {}", r,
                                                   theirs.bytes, bootstrap_.rank(), bytes));
    if (theirs.status != 0) {
      const auto failed = check(static_cast<CUresult>(theirs.status), "cuMemCreate");
      return fail(failed.error().kind,
                  fmt::format("rank {} has no {} bytes of symmetric memory: {}", r, bytes, failed.error().what));
    }
  }
  return {};
}

Result<void*> SymmetricHeap::allocate(Bytes bytes) {
  const Driver& api = **driver();
  const Bytes size = std::max<Bytes>(1, (bytes + granularity_ - 1) / granularity_) * granularity_;
  const CUmemAllocationProp prop = properties(device_);
  CUmemGenericAllocationHandle own = 0;
  const CUresult created = api.mem_create(&own, size, &prop, 0);
  if (auto agreed = agree(bytes, created); !agreed) {
    if (created == CUDA_SUCCESS) (void)api.mem_release(own);
    return tl::unexpected<Error>(agreed.error());
  }
  const Result<Block> block = map(size, own);
  (void)api.mem_release(own);  // the mapping keeps the memory
  in_step_ = in_step_ && block.has_value();
  FORESHARD_TRY(block);
  blocks_.push_back(*block);
  std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.base < b.base; });
  ++counters_.allocations;
  counters_.bytes += size;
  counters_.bytes_peak = std::max(counters_.bytes_peak, counters_.bytes);
  return reinterpret_cast<void*>(block->base + bootstrap_.local_rank() * size);
}

Result<SymmetricHeap::Block> SymmetricHeap::map(Bytes size, std::uint64_t own) {
  const Driver& api = **driver();
  int exported = -1;
  FORESHARD_TRY(check(api.mem_export(&exported, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "cuMemExport"));
  const auto shared =
      bootstrap_.share_descriptor(fmt::format("symmetric allocation {}", counters_.allocations), exported);
  ::close(exported);
  FORESHARD_TRY(shared);

  const std::uint32_t ranks = bootstrap_.local_ranks();
  const Result<Address> reserved = reserve(size * ranks);
  const Address base = reserved.value_or(0);
  const Block block{base, size};
  Result<void> done;
  if (!reserved) done = tl::unexpected<Error>(reserved.error());
  for (std::uint32_t r = 0; done && r < ranks; ++r) {
    CUmemGenericAllocationHandle handle = own;
    if (r != bootstrap_.local_rank())
      done = check(api.mem_import(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>((*shared)[r])),
                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                   "cuMemImportFromShareableHandle");
    if (!done) break;
    done = check(api.mem_map(base + r * size, size, 0, handle, 0), "cuMemMap");
    if (r != bootstrap_.local_rank()) (void)api.mem_release(handle);
  }
  close_all(*shared);
  if (done) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    done = check(api.mem_set_access(base, size * ranks, &access, 1), "cuMemSetAccess (peer access)");
  }
  if (!done) {
    if (base != 0) unmap(block);
    return tl::unexpected<Error>(done.error());
  }
  return block;
}

void SymmetricHeap::unmap(const Block& block) const {
  // At the end of a process the context may be gone; then there is nothing left to give back.
  const Driver& api = **driver();
  for (std::uint32_t r = 0; r < bootstrap_.local_ranks(); ++r)
    (void)api.mem_unmap(block.base + r * block.size, block.size);
  if (arena_ == 0) (void)api.mem_address_free(block.base, block.size * bootstrap_.local_ranks());
}

Result<void> SymmetricHeap::release(void* memory) {
  const Address address = reinterpret_cast<Address>(memory);
  const Block* block = find(address);
  if (block == nullptr || address != block->base + bootstrap_.local_rank() * block->size)
    return fail(ErrorKind::mismatch, fmt::format("{:#x} is not the start of a symmetric allocation", address));
  FORESHARD_TRY(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  FORESHARD_TRY(bootstrap_.barrier(fmt::format("symmetric release {}", counters_.releases)));
  unmap(*block);
  ++counters_.releases;
  counters_.bytes -= block->size;
  blocks_.erase(blocks_.begin() + (block - blocks_.data()));
  return {};
}

const SymmetricHeap::Block* SymmetricHeap::find(Address address) const {
  auto after = std::upper_bound(blocks_.begin(), blocks_.end(), address,
                                [](Address a, const Block& block) { return a < block.base; });
  if (after == blocks_.begin()) return nullptr;
  const Block& block = *--after;
  const Address own = block.base + bootstrap_.local_rank() * block.size;
  return address >= own && address < own + block.size ? &block : nullptr;
}

std::optional<Address> SymmetricHeap::translate(Address address, std::uint32_t local_rank) const {
  const Block* block = find(address);
  if (block == nullptr || local_rank >= bootstrap_.local_ranks()) return std::nullopt;
  return address - bootstrap_.local_rank() * block->size + local_rank * block->size;
}

bool SymmetricHeap::contains(Address address, Bytes bytes) const {
  const Block* block = find(address);
  return block != nullptr && address + bytes <= block->base + (bootstrap_.local_rank() + 1) * block->size;
}

}  // namespace foreshard::gpu
