// A step as a graph: what ran on which stream, what waited for what, and the chain that made the step as long as it is.
//
// Used by dot.hpp. Pure; deterministic.
//
// Nodes are device ops, or with collapse::unit the stretches of one stream that belong to one unit and phase; a stretch
// ends where an op waits for another stream, so that the graph stays without cycles. The critical path is walked back
// from the step's last op: to whichever op, before it on its stream or waited for by an event, ended last. Where the
// host had issued the op only after all of these had ended, the host is what held it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::viz {

enum class Collapse : std::uint8_t { unit = 0, none = 1 };

struct GraphNode {
  StreamId stream;
  std::string name;   ///< of one op its own; of a stretch what runs most
  std::string unit;   ///< empty: none
  std::string phase;  ///< empty: none
  std::size_t ops = 0;
  Nanoseconds start;  ///< from the start of the first op
  Nanoseconds end;
  Nanoseconds busy;  ///< sum of its ops
  Bytes bytes = 0;   ///< of its collectives and copies
  bool collective = false;
  bool critical = false;
};

struct GraphEdge {
  enum class Kind : std::uint8_t { stream = 0, event = 1 };
  std::size_t from = 0;  ///< in GraphNode order
  std::size_t to = 0;
  Kind kind = Kind::stream;
  std::size_t waits = 1;  ///< op waits that it stands for
  bool critical = false;
  bool host = false;  ///< critical, and the host was late: between the two ops it issued
};

struct DependencyGraph {
  std::vector<GraphNode> nodes;  ///< by start, then stream
  std::vector<GraphEdge> edges;  ///< by from, then to
  Nanoseconds length;            ///< from the first op's start to the last op's end
  Nanoseconds critical_busy;     ///< of the ops on the critical path
  Nanoseconds critical_host;     ///< time on it in which the host was late
  bool has_events = false;       ///< false: no event waits were recorded; the graph has only streams, no critical path
};

/// Fails (input) where the selection holds no device ops, and (usage) with Collapse::none for more than 20,000 ops,
/// which `dot` does not lay out in any time.
[[nodiscard]] Result<DependencyGraph> dependency_graph(const Run& run, const traces::ExportSelection& selection,
                                                       Collapse collapse);

}  // namespace foreshard::viz
