// How a store is opened, by whoever reads it.
#pragma once

#include <string_view>

namespace foreshard::traces {

struct OpenOptions {
  /// A store whose bytes are not those that were written, or beside which another SQLite client left a journal, is
  /// refused (seal.hpp). This reads it as it is.
  bool unverified = false;

  /// What import found once so that plans need not (Run::results) is believed of a store that is whole, as it says
  /// nothing that could not be found anew. read_run() and the reader of SOURCEs both ask here.
  [[nodiscard]] bool takes_kept_calibration() const { return !unverified; }
};

/// Its key in Run::results.
inline constexpr std::string_view kKeptCalibration = "kept_calibration";

}  // namespace foreshard::traces
