// How a store is opened, by whoever reads it.
#pragma once

namespace foreshard::traces {

struct OpenOptions {
  /// A store whose bytes are not those that were written, or beside which another SQLite client left a journal, is
  /// refused (seal.hpp). This reads it as it is.
  bool unverified = false;
};

}  // namespace foreshard::traces
