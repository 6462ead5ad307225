// The run store that a verb takes where none is named: the newest of the working directory.
#pragma once

#include <string>

#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"

namespace foreshard::cli {

/// `given`; where that is empty, the `*.db` of the working directory that is a store and was written last (of several
/// at one time the last by name), and a note names it. Fails with ErrorKind::usage where there is none.
[[nodiscard]] Result<std::string> store_or_newest(const std::string& given, Console& console);

}  // namespace foreshard::cli
