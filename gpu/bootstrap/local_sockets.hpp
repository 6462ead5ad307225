// File descriptors between the ranks of one host, over Unix sockets (SCM_RIGHTS). Used by session.cpp.
//
// Local rank 0 listens on an abstract socket whose name the kernel chose and passes that name and a random word to the
// others through the rendezvous; a connection from another user, or without the word, is dropped. Then every exchange
// goes through local rank 0: one descriptor in from each, all of them out to each. Blocks, at most for `timeout`, and
// until `wake` becomes readable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/bootstrap/descriptor.hpp"
#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu {

/// Linux passes at most SCM_MAX_FD = 253 descriptors in one message (net/scm.h).
inline constexpr std::uint32_t kMaxLocalRanks = 253;

class LocalSockets {
 public:
  /// `wake` stays the caller's: an event descriptor that is readable once the run failed.
  LocalSockets(std::uint32_t local_rank, std::uint32_t local_ranks, Milliseconds timeout, int wake)
      : local_rank_(local_rank), local_ranks_(local_ranks), timeout_(timeout), wake_(wake) {}

  /// Local rank 0: listens. What the others pass to connect(); empty for the other ranks.
  [[nodiscard]] Result<std::string> open();
  /// With what local rank 0's open() returned. Local rank 0 takes the others' connections here.
  [[nodiscard]] Result<void> connect(std::string_view address);
  /// Collective among the host's ranks. The caller owns what it gets.
  [[nodiscard]] Result<std::vector<int>> bootstrap(int descriptor);

 private:
  [[nodiscard]] Result<void> wait(int descriptor, short events, TimePoint deadline) const;
  [[nodiscard]] Result<void> accept_one(std::string_view word, TimePoint deadline);

  std::uint32_t local_rank_, local_ranks_;
  Milliseconds timeout_;
  int wake_;
  std::string word_;
  OwnedDescriptor listener_;
  std::vector<OwnedDescriptor> peers_;  ///< local rank 0: by local rank, its own place empty; others: one, to it
};

}  // namespace foreshard::gpu
