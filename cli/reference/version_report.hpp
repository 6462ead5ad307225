// `foreshard --version`: which foreshard this is, and what is compiled into it.
#pragma once

#include <string>

#include "cli/terminal/output.hpp"

namespace foreshard::cli {

/// The first line is "foreshard 0.1.0 (COMMIT)".
[[nodiscard]] std::string version_report();
/// schema, verb, version, commit, pytorch_rules, default_pytorch, store_schema, gpu_backend, machines.
[[nodiscard]] Json version_json();

}  // namespace foreshard::cli
