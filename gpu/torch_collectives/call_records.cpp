#include "gpu/torch_collectives/call_records.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "gpu/bootstrap/descriptor.hpp"

namespace foreshard::gpu {
namespace {

tl::unexpected<Error> cannot_share(std::string_view call) {
  return fail(ErrorKind::rendezvous, fmt::format("the ranks of this host cannot share memory: {}: {}", call,
                                                 std::generic_category().message(errno)));
}

std::string text(const CallRecord& record) {
  return fmt::format("{}{} of {} bytes a rank at {:#x}", record.captured != 0 ? "captured " : "",
                     record.kind == CallKind::all_gather ? "all-gather" : "reduce-scatter", record.bytes, record.place);
}

}  // namespace

/// One rank's part.
struct CallRecords::Shared {
  alignas(64) std::atomic<std::uint64_t> calls;  ///< published
  CallRecord ring[kCallRing];
};

Result<std::unique_ptr<CallRecords>> CallRecords::create(Bootstrap& bootstrap) {
  std::unique_ptr<CallRecords> records(new CallRecords(bootstrap.rank(), bootstrap.ranks()));
  OwnedDescriptor own(::memfd_create("foreshard-calls", MFD_CLOEXEC));
  if (!own) return cannot_share("memfd_create");
  const std::size_t bytes = sizeof(Shared) * bootstrap.ranks();
  if (::ftruncate(own.get(), static_cast<off_t>(bytes)) != 0) return cannot_share("ftruncate");
  const auto all = bootstrap.share_descriptor("call records", own.get());
  FORESHARD_TRY(all);
  std::vector<OwnedDescriptor> owned;
  for (const int descriptor : *all) owned.emplace_back(descriptor);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, owned[0].get(), 0);
  if (memory == MAP_FAILED) return cannot_share("mmap");
  records->shared_ = static_cast<Shared*>(memory);  // zeros, as memfd_create makes them
  return records;
}

CallRecords::~CallRecords() {
  if (shared_ != nullptr) (void)::munmap(shared_, sizeof(Shared) * checked_.size());
}

Result<void> CallRecords::agree(const CallRecord& mine) {
  shared_[rank_].ring[calls_ % kCallRing] = mine;
  // Sequentially consistent, as the loads: of two ranks that publish at once at least one sees the other.
  shared_[rank_].calls.store(++calls_, std::memory_order_seq_cst);
  for (std::uint32_t peer = 0; peer < checked_.size(); ++peer)
    if (peer != rank_) FORESHARD_TRY(compare(peer));
  return {};
}

Result<void> CallRecords::compare(std::uint32_t peer) {
  const std::uint64_t theirs = shared_[peer].calls.load(std::memory_order_seq_cst);
  if (std::max(theirs, calls_) > checked_[peer] + kCallRing)
    return fail(ErrorKind::mismatch,
                fmt::format("ranks {} and {} are more than {} collectives apart", rank_, peer, kCallRing));
  for (; checked_[peer] < std::min(theirs, calls_); ++checked_[peer]) {
    const CallRecord& own = shared_[rank_].ring[checked_[peer] % kCallRing];
    const CallRecord& other = shared_[peer].ring[checked_[peer] % kCallRing];
    if (own == other) continue;
    return fail(
        ErrorKind::mismatch,
        fmt::format("call {} of rank {} is {}, of rank {} {}", checked_[peer] + 1, rank_, text(own), peer, text(other)),
        {},
        "all ranks must run the same models and batches in the same order, and free alike: look for a rank that "
        "evaluates or skips alone, or whose exception keeps tensors alive");
  }
  return {};
}

}  // namespace foreshard::gpu
