// Starts the ranks of a run on this host and sees to it that they end together: `foreshard run --gpus 4`.
//
// The launcher holds the rendezvous (rendezvous_server.hpp), starts one process a rank in its own process group with
// the variables of environment.hpp, passes their words on line by line, and watches them. When one dies, hangs, fails
// or disagrees, the others are told, then asked to end (SIGTERM), then made to (SIGKILL); when launch_ranks() returns,
// none of them nor of their own process groups is left. If the launcher itself is killed, the kernel kills the ranks
// (PR_SET_PDEATHSIG). Ctrl-C (SIGINT), SIGTERM and SIGHUP at the launcher end the run as `interrupted`; a second one at
// once.
//
// Not thread safe: takes the process's SIGINT, SIGTERM and SIGCHLD while it runs, and puts back what was there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu {

struct LaunchOptions {
  std::uint32_t ranks = 1;
  Variables variables;  ///< of the ranks, beside those that the launcher sets; process_variables() mostly
  Timeouts timeouts;
  /// A line that a rank wrote to standard error, or (not rank 0, whose standard output is the launcher's) to standard
  /// output; without its end, at most 4 KiB.
  std::function<void(std::uint32_t rank, std::string_view line)> on_line;
  /// After the ranks are started: their process ids, by rank.
  std::function<void(const std::vector<int>& processes)> on_start;
};

/// How a rank's process ended.
struct RankEnd {
  int status = 0;  ///< its exit status, or 128 + the signal that ended it
  int signal = 0;  ///< 0: it ended by itself
};

struct RunEnd {
  std::optional<RunFailure> failure;  ///< none: every rank finished and ended with status 0
  std::vector<RankEnd> ranks;
  /// 0, or the number of the failure's kind; the rank's own status where it ended by itself with one that is no kind's.
  int exit_code = 0;
  /// Who came to the rendezvous without knowing the run's secret, for a person (Session::unauthenticated()). Empty:
  /// nobody.
  std::string unauthenticated;
  int interrupted_by =
      0;  ///< the signal that ended the run at the launcher, with a failure of kind `interrupted`; 0: none
};

/// Runs `command` (the program's path, then its arguments) `options.ranks` times; returns when all have ended. Errors:
/// `usage` and `input` for a program that cannot be started, `rendezvous` for a port that cannot be had.
[[nodiscard]] Result<RunEnd> launch_ranks(const std::vector<std::string>& command, const LaunchOptions& options);

}  // namespace foreshard::gpu
