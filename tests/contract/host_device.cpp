#include "tests/contract/host_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/base/check.hpp"
#include "tests/contract/host_math.hpp"

namespace foreshard {

CommunicatorId HostDevice::create_communicator(const CommunicatorOptions& options) {
  const std::vector<std::uint32_t> only_member{rank_};
  const auto& members = options.members.empty() ? only_member : options.members;
  const auto place = std::find(members.begin(), members.end(), rank_);
  FORESHARD_CHECK(place != members.end(), "a communicator without this rank");
  communicators_.push_back({&world_.group(members), static_cast<std::size_t>(place - members.begin()), members.size()});
  return CommunicatorId{static_cast<std::uint32_t>(communicators_.size() - 1)};
}

OpId HostDevice::launch(StreamId, const KernelLaunch& kernel) {
  if (kernel.kernel == nullptr) {
    ++launched_;
    return add_op();
  }
  const Kernel& what = *kernel.kernel;
  const std::span<const Address> addresses = kernel.addresses;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    FORESHARD_CHECK(addresses[i] != 0 || what.operands[i].absent || what.operands[i].numel() == 0,
                    "an operand without memory");
  if (memory_ != nullptr &&
      std::any_of(addresses.begin(), addresses.end(), [&](Address a) { return a != 0 && !memory_->holds(a); })) {
    ++dangling_;
    return add_op();
  }
  run_on_host(what, addresses);
  computed_.push_back(kernel.cost);
  return add_op();
}

void HostDevice::move_bytes(const Communicator& c, const CollectiveWork& work) {
  const Bytes part = work.bytes / c.ranks;
  const auto from = [&](std::size_t rank) { return reinterpret_cast<const char*>(c.group->inputs[rank]); };
  std::vector<char> got(work.bytes);  // the input may be the output
  if (work.kind == CollectiveKind::all_to_all) {
    for (std::size_t r = 0; r < c.ranks; ++r) std::memcpy(got.data() + r * part, from(r) + c.place * part, part);
  } else {
    const bool passes_on = work.kind == CollectiveKind::send_recv;
    std::memcpy(got.data(), from(passes_on ? (c.place + c.ranks - 1) % c.ranks : 0), work.bytes);
  }
  c.group->meeting.arrive_and_wait();
  std::memcpy(reinterpret_cast<char*>(work.output), got.data(), work.bytes);
  c.group->meeting.arrive_and_wait();
}

/// Every rank has the same tensors at addresses of its own.
void HostDevice::move_tensors(Communicator& c, const CollectiveWork& work) {
  c.group->tensors[c.place] = work.tensors;
  c.group->meeting.arrive_and_wait();
  const DType result = work.output_dtype.value_or(work.dtype);
  std::uint64_t written = 0;
  const bool in_place = work.input == work.tensors.front().address;
  Bytes gathered = 0;  // of a rank's input that is not in place
  for (std::size_t t = 0; t < work.tensors.size(); ++t) {
    const ShardedTensor& tensor = work.tensors[t];
    if (work.kind == CollectiveKind::all_gather) {
      for (std::size_t r = 0; r < c.ranks; ++r) {
        const Address from =
            in_place ? c.group->tensors[r][t].address + r * tensor.part : c.group->inputs[r] + gathered;
        const Address to = tensor.address + r * tensor.part;
        if (from != to) std::memcpy(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), tensor.part);
      }
      gathered += tensor.part;
      continue;
    }
    const Bytes size = itemsize(work.dtype);
    const Bytes first = c.place * tensor.part;
    for (std::uint64_t i = 0; i < tensor.part / size; ++i, ++written) {
      if (first + i * size >= tensor.bytes) continue;
      double sum = 0;
      for (std::size_t r = 0; r < c.ranks; ++r)
        sum += load_element(c.group->tensors[r][t].address + first + i * size, work.dtype);
      store_element(work.output + written * itemsize(result), result, sum / static_cast<double>(c.ranks));
    }
  }
  c.group->meeting.arrive_and_wait();
}

OpId HostDevice::collective(StreamId, CommunicatorId communicator, const CollectiveWork& work) {
  if (work.output == 0) return add_op();  // without memory there is nothing to move
  Communicator& c = communicators_[communicator.value];
  c.group->inputs[c.place] = work.input;
  c.group->meeting.arrive_and_wait();
  const Bytes part = work.bytes / c.ranks;
  if (!work.tensors.empty()) {
    move_tensors(c, work);
    return add_op();
  }
  if (work.kind == CollectiveKind::all_gather) {
    for (std::size_t r = 0; r < c.ranks; ++r) {
      auto* to = reinterpret_cast<char*>(work.output + r * part);
      const auto* from = reinterpret_cast<const char*>(c.group->inputs[r]);
      if (to != from) std::memcpy(to, from, part);
    }
    c.group->meeting.arrive_and_wait();
    return add_op();
  }
  if (work.kind == CollectiveKind::all_to_all || work.kind == CollectiveKind::broadcast ||
      work.kind == CollectiveKind::send_recv) {
    move_bytes(c, work);
    return add_op();
  }
  const bool scatter = work.kind == CollectiveKind::reduce_scatter;
  const Bytes size = itemsize(work.dtype);
  const DType result = work.output_dtype.value_or(work.dtype);
  std::uint64_t numel = (scatter ? part : work.bytes) / size;
  const Address offset = scatter ? c.place * part : 0;
  const double factor = work.reduction == Reduction::average ? 1.0 / static_cast<double>(c.ranks) : 1.0;
  std::vector<double> sums(numel);
  for (std::size_t r = 0; r < c.ranks; ++r)
    for (std::uint64_t i = 0; i < numel; ++i) {
      const double value = load_element(c.group->inputs[r] + offset + i * size, work.dtype);
      if (work.reduction != Reduction::maximum)
        sums[i] += value;
      else if (r == 0 || value > sums[i])
        sums[i] = value;
    }
  c.group->meeting.arrive_and_wait();  // an all-reduce writes over its input
  if (work.kind == CollectiveKind::reduce && c.place != 0) numel = 0;
  for (std::uint64_t i = 0; i < numel; ++i) store_element(work.output + i * itemsize(result), result, sums[i] * factor);
  c.group->meeting.arrive_and_wait();
  return add_op();
}

namespace {

/// Blocks that no HostMemory of the process holds, by their size.
class RecycledBlocks {
 public:
  /// Null where malloc has no more.
  [[nodiscard]] void* take(Bytes size) {
    constexpr std::size_t kAlignment = 2 * kMiB;
    const std::scoped_lock lock(mutex_);
    const auto of_size = free_.find(size);
    if (of_size == free_.end())
      return std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    void* block = of_size->second;
    free_.erase(of_size);
    return block;
  }
  void put(Bytes size, void* block) {
    const std::scoped_lock lock(mutex_);
    free_.emplace(size, block);
  }

 private:
  std::mutex mutex_;
  std::multimap<Bytes, void*> free_;
};

RecycledBlocks& recycled() {
  static RecycledBlocks blocks;
  return blocks;
}

}  // namespace

void RecycleBlock::operator()(void* block) const {
  recycled().put(size, block);
}

std::optional<Address> HostMemory::allocate(MemoryKind, Bytes size) {
  if (held_ + size > capacity_) return std::nullopt;
  void* block = recycled().take(size);
  if (block == nullptr) return std::nullopt;
  std::memset(block, 0xff, size);
  const auto address = reinterpret_cast<Address>(block);
  blocks_[address] = {std::unique_ptr<void, RecycleBlock>(block, RecycleBlock{size}), size};
  held_ += size;
  return address;
}

void HostMemory::free(Address address) {
  const auto block = blocks_.find(address);
  FORESHARD_CHECK(block != blocks_.end(), "a range that was allocated");
  held_ -= block->second.size;
  ++freed_;
  blocks_.erase(block);
}

std::optional<Address> HostMemory::reserve(Bytes size) {
  void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return std::nullopt;
  const auto address = reinterpret_cast<Address>(range);
  reserved_[address] = size;
  return address;
}

void HostMemory::release(Address address) {
  const auto range = reserved_.find(address);
  FORESHARD_CHECK(range != reserved_.end(), "a range that was reserved");
  munmap(reinterpret_cast<void*>(address), range->second);
  reserved_.erase(range);
}

bool HostMemory::map(Address address, Bytes size) {
  if (held_ + size > capacity_) return false;
  if (mprotect(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE) != 0) return false;
  held_ += size;
  return true;
}

void HostMemory::unmap(Address address, Bytes size) {
  void* range = reinterpret_cast<void*>(address);
  madvise(range, size, MADV_DONTNEED);
  mprotect(range, size, PROT_NONE);
  held_ -= size;
}

bool HostMemory::holds(Address address) const {
  auto after = blocks_.upper_bound(address);
  return after != blocks_.begin() && address < (--after)->first + after->second.size;
}

}  // namespace foreshard
