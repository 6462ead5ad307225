#include "viz/graph/dependency_graph.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/run/plan_results.hpp"
#include "core/timeline/places.hpp"
#include "traces/export/dependencies.hpp"
#include "traces/export/tracks.hpp"

namespace foreshard::viz {
namespace {

using traces::OpDependencies;

constexpr std::size_t kNoOp = OpDependencies::kNoOp;
constexpr std::size_t kMaxOps = 20'000;

class Builder {
 public:
  Builder(const Run& run, const traces::ExportSelection& selection, Collapse collapse)
      : run_(run),
        collapse_(collapse),
        places_(run, selection.lanes),
        dependencies_(traces::op_dependencies(run, selection)) {}

  Result<DependencyGraph> build() {
    if (dependencies_.empty())
      return tl::unexpected(no_device_ops(run_, "there are no device ops to draw", run_.info.name));
    if (collapse_ == Collapse::none && dependencies_.size() > kMaxOps)
      return fail(ErrorKind::usage, fmt::format("{} ops are too many to draw one by one", dependencies_.size()),
                  "--collapse", "give --collapse unit, or one --step");
    for (std::size_t i = 0; i < dependencies_.size(); ++i) at_[dependencies_[i].op] = i;
    make_nodes();
    order_nodes();
    if (graph_.has_events) walk_critical_path();
    make_edges();
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const DeviceOpRecord& op(std::size_t index) const { return run_.device_ops[index]; }

  [[nodiscard]] bool joins(const OpDependencies& next, std::size_t node) const {
    const GraphNode& last = graph_.nodes[node];
    const DeviceOpRecord& record = op(next.op);
    return collapse_ == Collapse::unit && next.events.empty() && last.unit == places_.unit(record) &&
           last.phase == places_.phase(record) && last.collective == (record.kind == DeviceOpRecord::Kind::collective);
  }

  void make_nodes() {
    Nanoseconds begin = op(dependencies_.front().op).start;
    for (const OpDependencies& d : dependencies_) begin = std::min(begin, op(d.op).start);
    std::map<StreamId, std::size_t> open;  // the stream's last node
    std::map<std::size_t, std::map<std::string, Nanoseconds>> names;
    for (const OpDependencies& d : dependencies_) {
      const DeviceOpRecord& record = op(d.op);
      const auto last = open.find(record.stream);
      if (last == open.end() || !joins(d, last->second)) {
        open[record.stream] = graph_.nodes.size();
        GraphNode node;
        node.stream = record.stream;
        node.unit = places_.unit(record);
        node.phase = places_.phase(record);
        node.start = record.start - begin;
        node.collective = record.kind == DeviceOpRecord::Kind::collective;
        graph_.nodes.push_back(std::move(node));
      }
      const std::size_t at = open[record.stream];
      GraphNode& node = graph_.nodes[at];
      ++node.ops;
      node.end = std::max(node.end, record.end - begin);
      node.busy += record.end - record.start;
      node.bytes += record.bytes;
      names[at][traces::op_name(run_, record)] += record.end - record.start;
      node_of_[d.op] = at;
      graph_.length = std::max(graph_.length, record.end - begin);
      graph_.has_events |= !d.events.empty();
    }
    for (const auto& [at, times] : names)
      graph_.nodes[at].name = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) {
                                return a.second < b.second;
                              })->first;
  }

  void order_nodes() {
    std::vector<std::size_t> order(graph_.nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      const GraphNode& x = graph_.nodes[a];
      const GraphNode& y = graph_.nodes[b];
      return std::tie(x.start, x.stream) < std::tie(y.start, y.stream);
    });
    std::vector<std::size_t> place(order.size());
    std::vector<GraphNode> nodes;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      nodes.push_back(std::move(graph_.nodes[order[i]]));
    }
    graph_.nodes = std::move(nodes);
    for (auto& [index, node] : node_of_) node = place[node];
  }

  /// The op that held up another, and whether the host was later still.
  void walk_critical_path() {
    std::size_t at = dependencies_.front().op;
    for (const OpDependencies& d : dependencies_)
      if (op(d.op).end > op(at).end) at = d.op;
    for (;;) {
      graph_.nodes[node_of_.at(at)].critical = true;
      graph_.critical_busy += op(at).end - op(at).start;
      const OpDependencies& d = dependencies_[at_.at(at)];
      std::size_t last = d.before;
      for (const std::size_t source : d.events)
        if (last == kNoOp || op(source).end > op(last).end) last = source;
      if (last == kNoOp) return;
      const bool late = op(at).issue > op(last).end;
      if (late) graph_.critical_host += op(at).issue - op(last).end;
      critical_.emplace(std::pair{node_of_.at(last), node_of_.at(at)}, late);
      at = last;
    }
  }

  void make_edges() {
    std::map<std::pair<std::size_t, std::size_t>, GraphEdge> edges;
    const auto add = [&](std::size_t from, std::size_t to, GraphEdge::Kind kind) {
      const std::pair key{node_of_.at(from), node_of_.at(to)};
      if (key.first == key.second) return;
      const auto [place, made] = edges.try_emplace(key, GraphEdge{key.first, key.second, kind});
      if (!made) ++place->second.waits;
    };
    for (const OpDependencies& d : dependencies_) {
      if (d.before != kNoOp) add(d.before, d.op, GraphEdge::Kind::stream);
      for (const std::size_t source : d.events) add(source, d.op, GraphEdge::Kind::event);
    }
    for (auto& [key, edge] : edges) {
      if (const auto found = critical_.find(key); found != critical_.end()) {
        edge.critical = true;
        edge.host = found->second;
      }
      graph_.edges.push_back(edge);
    }
  }

  const Run& run_;
  Collapse collapse_;
  Places places_;
  std::vector<OpDependencies> dependencies_;
  std::map<std::size_t, std::size_t> at_;       // op: its place in dependencies_
  std::map<std::size_t, std::size_t> node_of_;  // op: its node
  std::map<std::pair<std::size_t, std::size_t>, bool> critical_;
  DependencyGraph graph_;
};

}  // namespace

Result<DependencyGraph> dependency_graph(const Run& run, const traces::ExportSelection& selection, Collapse collapse) {
  return Builder(run, selection, collapse).build();
}

}  // namespace foreshard::viz
