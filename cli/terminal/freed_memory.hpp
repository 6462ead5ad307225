// Memory that a search of many plans frees and asks for again.
//
// Who: sweep, tune, plan. Changes no result.
#pragma once

namespace foreshard::cli {

/// Points free what the next one asks for again: kept by the process, pages are not faulted in anew, which took a tenth
/// of a sweep's time. glibc's largest threshold, and a few points' memory, in huge pages where the system has them for
/// who asks; nothing with another C library.
void keep_freed_memory();

}  // namespace foreshard::cli
