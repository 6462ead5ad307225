// What the ranks of one run tell each other outside the GPUs: NCCL ids, memory handles, agreement, results.
//
// Who: gpu/collectives and gpu/cuda set their communicators and shared memory up with it; gpu/launch implements it over
// TCP between hosts and Unix sockets within one. Every call is collective: all ranks make the same calls in the same
// order with the same `what`, which names the operation in messages ("rank 2 did not come to 'symmetric segment 3'").
//
// Errors: a rank that died, hangs beyond the timeout or asks for something else ends the call on every rank with an
// error that names it. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::gpu {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;
  /// Ranks of one host have consecutive numbers: local rank r of this host is rank() - local_rank() + r.
  [[nodiscard]] virtual std::uint32_t local_rank() const = 0;
  [[nodiscard]] virtual std::uint32_t local_ranks() const = 0;

  /// Every rank's `bytes`, by rank. Sizes may differ.
  [[nodiscard]] virtual Result<std::vector<std::string>> all_gather(std::string_view what, std::string_view bytes) = 0;
  [[nodiscard]] virtual Result<void> barrier(std::string_view what) = 0;
  /// Passes one file descriptor to every rank of this host (SCM_RIGHTS): copies of theirs, by local rank. The caller
  /// owns those it gets (its own place holds a copy too) and keeps the one it gave.
  [[nodiscard]] virtual Result<std::vector<int>> share_descriptor(std::string_view what, int descriptor) = 0;
};

}  // namespace foreshard::gpu
