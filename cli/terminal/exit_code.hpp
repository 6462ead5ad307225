// Exit statuses beside those of ErrorKind; stable, listed in docs/exit_codes.md.
#pragma once

namespace foreshard::cli {

enum ExitCode : int {
  kDone = 0,
  kInternalError = 1,
  kOutOfHostMemory = 12,
  kDiffers = 13,
  kInterrupted = 130,
};

}  // namespace foreshard::cli
