// Opens a store for reading, after checking that it is one. Private to traces/store.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "traces/store/open_options.hpp"
#include "traces/store/sqlite.hpp"

namespace foreshard::traces {

/// A read-only connection to a whole store of this schema version; the errors are read_run's.
[[nodiscard]] Result<Connection> open_store(const std::string& path, OpenOptions options);

}  // namespace foreshard::traces
