// A dependency graph as Graphviz DOT: streams as clusters, event waits as edges between them, the critical path in
// red. Node names are the graph's own numbers, so equal runs give equal bytes.
#pragma once

#include <string>

#include "core/run/run.hpp"
#include "viz/graph/dependency_graph.hpp"

namespace foreshard::viz {

[[nodiscard]] std::string to_dot(const Run& run, const DependencyGraph& graph, const std::string& title);

}  // namespace foreshard::viz
