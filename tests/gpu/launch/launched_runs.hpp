// Runs of the test worker: under foreshard's launcher, or as torchrun would start them. Used by the tests of this
// folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/launch/process.hpp"
#include "gpu/launch/supervisor.hpp"

namespace foreshard::gpu::testing {

/// A run that is over, with all that its ranks said.
struct Finished {
  RunEnd end;                                   ///< without a launcher: the ranks' ends alone
  std::vector<std::vector<std::string>> lines;  ///< by rank
  std::vector<int> processes;
  double seconds = 0;

  [[nodiscard]] bool said(std::uint32_t rank, const std::string& part) const;
  /// No process of the run, nor of its process groups, is left.
  [[nodiscard]] bool nothing_left() const;
  /// For a failing test.
  [[nodiscard]] std::string text() const;
};

/// Short enough for a test, long enough for a busy machine.
[[nodiscard]] Timeouts quick();

/// The worker under launch_ranks(); `arguments`: its fault, victim and times.
[[nodiscard]] Finished launch(std::uint32_t ranks, std::vector<std::string> arguments, const Timeouts& timeouts);

/// One rank as torchrun would start it. Its XDG_RUNTIME_DIR is runtime_folder().
[[nodiscard]] Process start_rank(std::uint32_t rank, std::uint32_t ranks, std::uint16_t port,
                                 std::vector<std::string> arguments, const Variables& more = {});

/// Waits for such ranks, for `timeout` at most, or until all but `left` have ended (a stopped one stays); those that
/// are left are killed and have signal 0 and status -1.
[[nodiscard]] Finished wait_for(std::vector<Process>& processes, Milliseconds timeout, std::size_t left = 0);

/// Where ranks of one host put the secret that they were not given; gone with the test program.
[[nodiscard]] const std::filesystem::path& runtime_folder();

/// A port of the loopback that nobody listens on.
[[nodiscard]] std::uint16_t free_port();

}  // namespace foreshard::gpu::testing
