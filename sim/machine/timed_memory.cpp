#include "sim/machine/timed_memory.hpp"

#include <iterator>
#include <numeric>

#include "core/base/check.hpp"

namespace foreshard::sim {

void TimedMemory::take(std::string_view name, Nanoseconds time) {
  if (gave_back_) on_call_({name, time, false});
}

void TimedMemory::give_back(std::string_view name, Nanoseconds time) {
  gave_back_ = true;
  on_call_({name, time, true});
}

std::optional<Address> TimedMemory::allocate(MemoryKind kind, Bytes size) {
  const auto address = memory_.allocate(kind, size);
  take("cudaMalloc", address ? malloc_time(calls_, size) : calls_.refused);
  if (address) sizes_[*address] = size;
  return address;
}

void TimedMemory::free(Address address) {
  const auto freed = sizes_.extract(address);
  give_back("cudaFree", free_time(calls_, freed.empty() ? 0 : freed.mapped()));
  memory_.free(address);
}

std::optional<Address> TimedMemory::reserve(Bytes size) {
  const auto address = memory_.reserve(size);
  if (address) pages_[*address] = large_page_;
  return address;
}

void TimedMemory::release(Address address) {
  pages_.erase(address);
  memory_.release(address);
}

Bytes& TimedMemory::page_at(Address address) {
  const auto behind = pages_.upper_bound(address);
  FORESHARD_CHECK(behind != pages_.begin(), "pages lie in a reserved range");
  return std::prev(behind)->second;
}

bool TimedMemory::map(Address address, Bytes size) {
  const bool mapped = memory_.map(address, size);
  Bytes& page = page_at(address);
  if (mapped) page = std::gcd(page, size);
  take("cuMemMap", mapped ? calls_.map.scaled(static_cast<double>(size / page)) : calls_.refused);
  return mapped;
}

void TimedMemory::unmap(Address address, Bytes size) {
  give_back("cuMemUnmap", calls_.unmap.scaled(static_cast<double>(size / page_at(address))));
  memory_.unmap(address, size);
}

}  // namespace foreshard::sim
