// Who waits for whom in a planned job that hangs, as Graphviz DOT: ranks that nothing tells apart are a node, and an
// edge is a collective that one waits in and the other does not come to.
//
// Who: cli's export --format dot|svg-graph. Pure; equal runs give equal bytes.
#pragma once

#include <optional>
#include <string>

#include "core/run/run.hpp"

namespace foreshard::viz {

/// Of a plan whose answer (Run::results, "hang") says that it hangs; none: it does not, or says nothing that can be
/// drawn.
[[nodiscard]] std::optional<std::string> hang_dot(const Run& run, const std::string& title);

}  // namespace foreshard::viz
