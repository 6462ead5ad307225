// One explanation of why a run ended, out of the several that arrive within moments. Used by the rendezvous server.
// Pure.
//
// When rank 1 is killed, ranks 0, 2 and 3 fail a little later because a collective lost its partner, and their words
// may come first. So the first sign of trouble opens a short window (Timeouts::settle), in which a better explanation
// replaces a worse one; of equally good ones the first stays.
#pragma once

#include <optional>

#include "gpu/bootstrap/failure.hpp"

namespace foreshard::gpu {

class FailureReport {
 public:
  void add(RunFailure failure);
  /// A process's end explains its cut connection: replaces a rank_lost of the same rank, whatever came first.
  void add_end_of_process(RunFailure failure);
  [[nodiscard]] const std::optional<RunFailure>& best() const { return best_; }
  /// Nothing can explain it better: no need to wait.
  [[nodiscard]] bool certain() const;

 private:
  std::optional<RunFailure> best_;
};

}  // namespace foreshard::gpu
