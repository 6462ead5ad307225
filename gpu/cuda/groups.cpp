#include "gpu/cuda/groups.hpp"

#include <fmt/ranges.h>
#include <nccl.h>

#include <algorithm>
#include <numeric>

#include "core/device/transport_traits.hpp"

namespace foreshard::gpu {
namespace {

Result<void> check_nccl(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return {};
  // What ncclMemAlloc (NCCL 2.28, allocator.cc) makes of every refusal of the driver's; memory is what it lacks mostly.
  const ErrorKind kind = code == ncclUnhandledCudaError ? ErrorKind::out_of_memory : ErrorKind::mismatch;
  static_cast<void>(cudaGetLastError());
  return fail(kind, fmt::format("{}: {}", call, ncclGetErrorString(code)));
}

bool needs_heap(const std::vector<Transport>& transports) {
  return std::any_of(transports.begin(), transports.end(), outside_nccl);
}

}  // namespace

std::vector<Transport> transports_of(const Settings& settings) {
  std::vector<Transport> out{Transport::nccl};
  for (const Transport transport : {settings.all_gather, settings.reduce_scatter})
    if (std::find(out.begin(), out.end(), transport) == out.end()) out.push_back(transport);
  return out;
}

Groups::Groups(Bootstrap& bootstrap, std::vector<Transport> transports, bool captured)
    : bootstrap_(bootstrap), transports_(std::move(transports)), captured_(captured) {
  if (!needs_heap(transports_)) return;
  auto heap = SymmetricHeap::create(bootstrap_);
  if (heap)
    heap_ = std::move(*heap);
  else
    heap_caveat_ = heap.error().what;
}

Result<GroupCollectives> Groups::group(const CommunicatorOptions& options) {
  CommunicatorSettings settings;
  settings.name = options.name;
  settings.members = options.members;
  if (settings.members.empty()) {  // all ranks
    settings.members.resize(options.ranks);
    std::iota(settings.members.begin(), settings.members.end(), 0U);
  }
  settings.transports = transports_;
  settings.captured = captured_;
  const std::string key = fmt::format("{} {}", options.name, fmt::join(settings.members, ","));
  auto found = by_name_.find(key);
  if (found == by_name_.end()) {
    auto made = Communicator::create(bootstrap_, heap_.get(), settings);
    FORESHARD_TRY(made);
    found = by_name_.emplace(key, std::move(*made)).first;
    if (first_ == nullptr) first_ = found->second.get();
    const std::lock_guard lock(mutex_);
    to_abort_.push_back(found->second.get());
    if (aborted_) found->second->abort();
  }
  Communicator* communicator = found->second.get();
  return GroupCollectives{
      [communicator](const CollectiveWork& work, cudaStream_t stream) { return communicator->issue(work, stream); },
      [communicator] { return communicator->resident_items(); },
      [communicator](std::uint32_t number) { return communicator->item_time(number); }};
}

Transport Groups::symmetric_transport() const {
  for (const Transport transport : {Transport::copy_engine, Transport::symmetric})
    if (std::find(transports_.begin(), transports_.end(), transport) != transports_.end()) return transport;
  return heap_ ? Transport::low_contention : Transport::nccl;
}

Result<void*> Groups::acquire(MemoryKind kind, Bytes bytes) {
  if (first_ != nullptr)
    return first_->acquire(kind == MemoryKind::registered ? Transport::nccl_registered : symmetric_transport(), bytes);
  void* memory = nullptr;
  if (kind == MemoryKind::symmetric && heap_) {
    const auto made = heap_->allocate(bytes);
    if (!made) return made;
    memory = *made;
  } else if (auto ok = check_nccl(ncclMemAlloc(&memory, bytes), "ncclMemAlloc"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  loose_.insert(memory);
  return memory;
}

Result<void> Groups::release(MemoryKind kind, void* memory) {
  if (loose_.erase(memory) == 0) return first_->release(memory);
  if (kind == MemoryKind::symmetric && heap_) return heap_->release(memory);
  return check_nccl(ncclMemFree(memory), "ncclMemFree");
}

Result<void> Groups::health() {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return fail(ErrorKind::rank_lost, "the run was given up");
  }
  for (const auto& [key, communicator] : by_name_)
    if (auto ok = communicator->health(); !ok) return ok;
  return {};
}

void Groups::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (Communicator* communicator : to_abort_) communicator->abort();
}

std::vector<GroupPath> Groups::paths() const {
  std::vector<GroupPath> out;
  for (const auto& [key, communicator] : by_name_)
    for (PathReport& path : communicator->paths()) out.push_back({key.substr(0, key.find(' ')), std::move(path)});
  return out;
}

PoolCounters Groups::counters() const {
  PoolCounters sum;
  for (const auto& [key, communicator] : by_name_) {
    const PoolCounters& one = communicator->counters();
    sum.acquired += one.acquired;
    sum.reused += one.reused;
    sum.registered += one.registered;
    sum.bytes += one.bytes;
  }
  return sum;
}

Bytes Groups::fixed_bytes() const {
  Bytes sum = 0;
  for (const auto& [key, communicator] : by_name_) sum += communicator->fixed_bytes();
  return sum;
}

}  // namespace foreshard::gpu
