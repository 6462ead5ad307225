// The end of this process at a set time, whatever its other threads do.
//
// Who: c_interface.cpp, when a group is lost. Streams then wait for what never comes, and a Python thread may hold the
// interpreter's lock, or a log handler's, while it waits for the device: the thread that ends the process takes no lock
// and touches no CUDA. The waits are not ended first, so that nothing runs on what they would have brought.
#pragma once

#include <chrono>

namespace foreshard::gpu {

/// Ends the process with `code` (_exit) after `time`, without destructors or atexit. Only the first call counts.
void end_process_after(std::chrono::milliseconds time, int code);

}  // namespace foreshard::gpu
