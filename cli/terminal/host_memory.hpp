// This machine's memory: what is too large for it ends in an answer, and not in the kernel's killing this or another
// process.
//
// Who: main. Reads /proc/meminfo and the control group's files; none of its results depends on them.
#pragma once

namespace foreshard::cli {

/// Lets this process take as much memory as is free now, swap included, in the machine and in its control group
/// (RLIMIT_DATA's soft limit). Programs that it starts inherit it.
void limit_host_memory();
/// Takes that back: for programs that reserve addresses without taking memory, as CUDA's do.
void lift_host_memory_limit();

/// From now on a failed allocation, in any thread, prints an `error:` line with the innermost CheckContext and the
/// command, calls `clean_up` and ends the process with kOutOfHostMemory.
void end_when_out_of_memory(void (*clean_up)());

}  // namespace foreshard::cli
