// One rank's process: started, looked at, ended. Used by supervisor.cpp.
//
// Each is the leader of its own process group, so that what it starts ends with it and a terminal's Ctrl-C reaches the
// launcher alone; the kernel kills it when the launcher's thread that started it dies (prctl(2), PR_SET_PDEATHSIG).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/bootstrap/descriptor.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "gpu/launch/supervisor.hpp"

namespace foreshard::gpu {

struct Process {
  int id = 0;
  OwnedDescriptor words;  ///< what it writes to standard error; to standard output too, unless that is kept
};

/// Starts `command` with exactly `variables`; standard input is empty. `keep_output`: its standard output is this
/// process's. Errors: `input`, with the system's reason, where it cannot be started.
[[nodiscard]] Result<Process> start_process(const std::vector<std::string>& command, const Variables& variables,
                                            bool keep_output);

/// How it ended, if it did. Ends the rest of its process group then.
[[nodiscard]] std::optional<RankEnd> ended(int process);

/// To the whole process group.
void signal_group(int process, int signal);

/// "signal 9 (SIGKILL)"
[[nodiscard]] std::string signal_text(int signal);

}  // namespace foreshard::gpu
