// Why a run of several ranks ended early: which rank, doing what, and the cause. The same on every rank.
//
// Made once, by whoever holds the rendezvous; told to every rank and to the person who started the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace foreshard::gpu {

struct RunFailure {
  ErrorKind kind = ErrorKind::rank_lost;  ///< its number is the run's exit code
  std::optional<std::uint32_t>
      rank;               ///< the rank to name as the cause; none: the rendezvous itself, or a person's Ctrl-C
  std::string operation;  ///< the last that rank reported; empty: none
  std::string cause;      ///< "was killed by signal 9 (SIGKILL)"; continues "rank 2 ..."
  std::string where;      ///< the rank's own Error::where, if it said one
  std::string hint;       ///< what to do; may be empty

  /// "rank 2 was killed by signal 9 (SIGKILL); its last operation: step 3, unit 5 forward"
  [[nodiscard]] std::string text() const;
  /// The same as what a function returns.
  [[nodiscard]] Error error() const { return {kind, text(), where, hint}; }
};

}  // namespace foreshard::gpu
