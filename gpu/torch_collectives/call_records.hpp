// Which buffer each rank uses in each collective call, in memory that the ranks of a host share: how it is known that
// all ranks use the same one before any byte moves.
//
// Who: torch_group.cpp. A rank writes into a peer's buffer at the place where its own lies (symmetric_heap.hpp). Ranks
// that run the same program allocate alike; one whose caching allocator went another way must be found out. Each rank
// publishes its call, then reads what the others have published. The last to come to a call sees all others' records,
// and until it has put its word on its stream no rank's copies start: a difference ends in an error, never in a buffer.
//
// Thread safety: one thread at a time on each rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "gpu/bootstrap/bootstrap.hpp"
#include "gpu/collectives/call_kind.hpp"

namespace foreshard::gpu {

struct CallRecord {
  CallKind kind = CallKind::all_gather;
  std::uint32_t captured = 0;  ///< 1: into a CUDA graph
  Bytes place = 0;             ///< of the symmetric buffer (SymmetricHeap::place)
  Bytes bytes = 0;             ///< that each rank contributes
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

class CallRecords {
 public:
  /// Collective. Errors: the kernel's, the exchange's.
  [[nodiscard]] static Result<std::unique_ptr<CallRecords>> create(Bootstrap& bootstrap);
  ~CallRecords();
  CallRecords(const CallRecords&) = delete;
  CallRecords& operator=(const CallRecords&) = delete;

  /// Publishes this rank's next call and compares it, and all before it, with what the others have published. Errors:
  /// a rank's call differs (mismatch, naming it), a rank is kCallRing calls ahead.
  [[nodiscard]] Result<void> agree(const CallRecord& mine);

 private:
  struct Shared;
  CallRecords(std::uint32_t rank, std::uint32_t ranks) : rank_(rank), checked_(ranks, 0) {}
  [[nodiscard]] Result<void> compare(std::uint32_t peer);

  std::uint32_t rank_;
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> checked_;  ///< calls compared, by rank
  Shared* shared_ = nullptr;            ///< by rank
};

/// Calls that a rank may be ahead of another; CUDA holds far fewer on a stream before it blocks the host.
inline constexpr std::uint64_t kCallRing = 4096;

}  // namespace foreshard::gpu
