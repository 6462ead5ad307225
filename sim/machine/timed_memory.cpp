#include "sim/machine/timed_memory.hpp"

namespace foreshard::sim {

void TimedMemory::take(Nanoseconds time) {
  if (gave_back_) on_call_(time, false);
}

void TimedMemory::give_back(Nanoseconds time) {
  gave_back_ = true;
  on_call_(time, true);
}

std::optional<Address> TimedMemory::allocate(MemoryKind kind, Bytes size) {
  const auto address = memory_.allocate(kind, size);
  take(address ? malloc_time(calls_, size) : calls_.refused);
  if (address) sizes_[*address] = size;
  return address;
}

void TimedMemory::free(Address address) {
  const auto freed = sizes_.extract(address);
  give_back(free_time(calls_, freed.empty() ? 0 : freed.mapped()));
  memory_.free(address);
}

bool TimedMemory::map(Address address, Bytes size) {
  const bool mapped = memory_.map(address, size);
  take(mapped ? calls_.map.scaled(static_cast<double>(pages_of(size))) : calls_.refused);
  return mapped;
}

void TimedMemory::unmap(Address address, Bytes size) {
  give_back(calls_.unmap.scaled(static_cast<double>(pages_of(size))));
  memory_.unmap(address, size);
}

}  // namespace foreshard::sim
