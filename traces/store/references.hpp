// Whether every id in a Run names something that the Run has. Private to traces/store.
//
// Checked before writing and after reading, so that whoever holds a Run from a store may index without
// looking: labels, units, parameters and blocks by id.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::traces {

/// The first id that names nothing, as an error of `kind` in `where`. Invalid (absent) ids are fine.
/// Two streams with one id, and a label interned twice, are refused too.
[[nodiscard]] Result<void> check_references(const Run& run, ErrorKind kind, const std::string& where);

}  // namespace foreshard::traces
