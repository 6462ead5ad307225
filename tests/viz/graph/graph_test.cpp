// The dependency graph of a step: its nodes, its critical path, and the DOT text that Graphviz reads.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/export/random_run.hpp"
#include "tests/traces/export/written.hpp"
#include "viz/graph/dot.hpp"

using namespace foreshard;
using namespace foreshard::test;
using namespace foreshard::viz;

namespace {

DependencyGraph graph_of(const Run& run, Collapse collapse, std::optional<std::int32_t> step = {}) {
  auto graph = dependency_graph(run, selected(run, step), collapse);
  REQUIRE(graph);
  return std::move(*graph);
}

/// Two layers: each gathered on stream 2 behind the one before, computed after its all-gather.
Run two_layers() {
  Run run;
  run.info.kind = RunKind::planned;
  run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{2}, "all-gather", 0, -1}};
  const auto add = [&run](std::uint32_t stream, std::uint32_t unit, std::int64_t issue, std::int64_t start,
                          std::int64_t end) {
    DeviceOpRecord op;
    op.stream = StreamId{stream};
    op.unit = UnitId{unit};
    op.issue = {issue};
    op.start = {start};
    op.end = {end};
    if (stream == 2) op.kind = DeviceOpRecord::Kind::collective;
    run.device_ops.push_back(op);
  };
  const auto note = [&run](EventRecord::Kind kind, std::uint32_t event, std::uint32_t stream, std::int64_t time) {
    run.events.push_back({kind, EventId{event}, StreamId{stream}, {time}});
  };
  add(2, 1, 10, 20, 100);
  note(EventRecord::Kind::record, 0, 2, 11);
  add(2, 2, 20, 100, 300);
  note(EventRecord::Kind::record, 1, 2, 21);
  note(EventRecord::Kind::wait, 0, 0, 30);
  add(0, 1, 31, 101, 150);
  add(0, 1, 32, 150, 200);
  note(EventRecord::Kind::wait, 1, 0, 40);
  add(0, 2, 41, 301, 350);
  add(0, 2, 400, 401, 450);
  run.phases = {{0, Recording::run, "forward", {0}, {500}}};
  return run;
}

bool acyclic(const DependencyGraph& graph) {
  std::vector<std::size_t> entering(graph.nodes.size());
  for (const GraphEdge& edge : graph.edges) ++entering[edge.to];
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < entering.size(); ++i)
    if (entering[i] == 0) free.push_back(i);
  std::size_t seen = 0;
  while (!free.empty()) {
    const std::size_t at = free.back();
    free.pop_back();
    ++seen;
    for (const GraphEdge& edge : graph.edges)
      if (edge.from == at && --entering[edge.to] == 0) free.push_back(edge.to);
  }
  return seen == graph.nodes.size();
}

}  // namespace

TEST_CASE("graph: one node a unit and stream, waits as edges, the longest chain marked") {
  const DependencyGraph graph = graph_of(two_layers(), Collapse::unit);
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.nodes[0].unit == "layers.0");
  CHECK(graph.nodes[0].collective);
  CHECK(graph.nodes[2].unit == "layers.0");
  CHECK(graph.nodes[2].ops == 2);
  CHECK(graph.nodes[3].unit == "layers.1");
  CHECK(graph.nodes[3].phase == "forward");
  CHECK(graph.length == Nanoseconds{430});
  // gather 0, gather 1, both ops of layer 1; the last was issued 50 ns after the one before had ended.
  CHECK(graph.critical_busy == Nanoseconds{80 + 200 + 49 + 49});
  CHECK(graph.critical_host == Nanoseconds{50});
  std::set<std::size_t> critical;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].critical) critical.insert(i);
  CHECK(critical == std::set<std::size_t>{0, 1, 3});
  REQUIRE(graph.edges.size() == 4);  // 0-1 and 2-3 on their streams, 0-2 and 1-3 by events
  for (const GraphEdge& edge : graph.edges)
    CHECK((edge.kind == GraphEdge::Kind::event) == (graph.nodes[edge.from].stream != graph.nodes[edge.to].stream));
}

TEST_CASE("graph: op by op, the same chain") {
  const DependencyGraph graph = graph_of(two_layers(), Collapse::none);
  CHECK(graph.nodes.size() == 6);
  CHECK(graph.critical_busy == Nanoseconds{378});
  CHECK(std::count_if(graph.edges.begin(), graph.edges.end(), [](const GraphEdge& e) { return e.critical; }) == 3);
  CHECK(std::count_if(graph.edges.begin(), graph.edges.end(), [](const GraphEdge& e) { return e.host; }) == 1);
}

TEST_CASE("graph: no cycles, every op in one node, and no chain longer than the step") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, RunKind::planned).make();
    if (run.device_ops.empty()) continue;
    for (const Collapse collapse : {Collapse::unit, Collapse::none}) {
      const DependencyGraph graph = graph_of(run, collapse);
      CHECK(acyclic(graph));
      std::size_t ops = 0;
      for (const GraphNode& node : graph.nodes) ops += node.ops;
      CHECK(ops == run.device_ops.size());
      CHECK(graph.critical_busy + graph.critical_host <= graph.length);
      CHECK(to_dot(run, graph, "x") == to_dot(run, graph_of(run, collapse), "x"));
    }
  }
}

TEST_CASE("graph: a recording without event waits says so and marks nothing") {
  Run run = two_layers();
  run.events.clear();
  const DependencyGraph graph = graph_of(run, Collapse::unit);
  CHECK_FALSE(graph.has_events);
  for (const GraphNode& node : graph.nodes) CHECK_FALSE(node.critical);
  CHECK(to_dot(run, graph, "x").find("no event waits were recorded") != std::string::npos);
}

TEST_CASE("graph: Graphviz reads the text, whatever names it holds") {
  Run run = two_layers();
  run.units[1].name = "a \"b\" \\ <c> \n é";
  run.device_ops[0].label = run.labels.intern("ядро \"x\"\\");
  run.device_ops[1].label = run.labels.intern("a\xef\xbf\xbe" + std::string(100'000, 'x') + "\xef\xbf\xbf");
  const std::string text = to_dot(run, graph_of(run, Collapse::none), "title \"quoted\"\\");
  CHECK(text.find("\xef\xbf\xbe") == std::string::npos);  // U+FFFE is not in XML, nor in the picture
  CHECK(text.size() < 50'000);
  CHECK(text.find("subgraph cluster_2") != std::string::npos);
  if (std::system("dot -V > /dev/null 2>&1") != 0) FORESHARD_SKIP("graphviz is not installed");
  const test::TemporaryFolder folder;
  const std::string path = folder.write("graph.dot", text);
  CHECK(std::system(("dot -Tsvg " + path + " > " + path + ".svg").c_str()) == 0);
  CHECK(test::file_bytes(path + ".svg").find("<svg") != std::string::npos);
}

TEST_CASE("graph: nothing to draw, and too much, are errors") {
  Run run = two_layers();
  const auto selection = selected(run);
  run.device_ops.resize(1);
  for (int i = 0; i < 20'001; ++i) run.device_ops.push_back(run.device_ops[0]);
  const auto much = dependency_graph(run, selection, Collapse::none);
  REQUIRE_FALSE(much);
  CHECK(much.error().kind == ErrorKind::usage);
  CHECK(dependency_graph(run, selection, Collapse::unit));
  run.device_ops.clear();
  const auto none = dependency_graph(run, selection, Collapse::unit);
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::input);
}
