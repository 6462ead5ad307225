#include "viz/graph/dot.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>

#include "core/base/units.hpp"
#include "traces/export/tracks.hpp"
#include "viz/graph/dot_text.hpp"

namespace foreshard::viz {
namespace {

constexpr std::size_t kNameLetters = 40;
// dot 2.43 fails at a tooltip of 100,000 bytes; a mangled name of CUTLASS has up to a thousand.
constexpr std::size_t kTooltipLetters = 4000;
// Okabe and Ito's colours, as in the pictures of viz/svg.
constexpr const char* kCritical = "#d55e00";
constexpr const char* kCompute = "#eef4fb";
constexpr const char* kCollective = "#fdf1dc";

std::string shortened(const std::string& text, std::size_t letters = kNameLetters) {
  if (text.size() <= letters) return text;
  std::size_t cut = letters;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0U) == 0x80U) --cut;  // not inside a UTF-8 letter
  return text.substr(0, cut) + "…";
}

std::string label(const GraphNode& node) {
  std::string out;
  if (node.ops > 1 && !node.unit.empty())
    out = dot_quoted(shortened(node.unit, kTooltipLetters) + (node.phase.empty() ? "" : ", " + node.phase));
  else
    out = dot_quoted(shortened(node.name)) +
          (node.unit.empty() ? "" : "\\n" + dot_quoted(shortened(node.unit, kTooltipLetters)));
  if (node.ops > 1) out += fmt::format("\\n{} ops", node.ops);
  out += fmt::format("\\n{}", format_time(node.busy));
  if (node.bytes > 0) out += ", " + format_bytes(node.bytes);
  return out;
}

void put_cluster(const Run& run, const DependencyGraph& graph, StreamId stream, std::string& out) {
  const std::string role = traces::stream_role(run, stream);
  const std::string name =
      fmt::format("stream {}{}", traces::stream_number(run, stream), role.empty() ? "" : ": " + role);
  fmt::format_to(std::back_inserter(out),
                 "  subgraph cluster_{} {{\n    label=\"{}\";\n    style=rounded;\n    color=\"#999999\";\n",
                 stream.value, dot_quoted(name));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.stream != stream) continue;
    fmt::format_to(std::back_inserter(out), "    n{} [label=\"{}\", tooltip=\"{}\", fillcolor=\"{}\"{}];\n", i,
                   label(node),
                   dot_quoted(fmt::format("{}: {} to {} after the begin", shortened(node.name, kTooltipLetters),
                                          format_time(node.start), format_time(node.end))),
                   node.collective ? kCollective : kCompute,
                   node.critical ? fmt::format(", color=\"{}\", penwidth=2", kCritical) : std::string());
  }
  out += "  }\n";
}

std::string attributes(const GraphEdge& edge) {
  std::string out = edge.kind == GraphEdge::Kind::event ? "style=dashed, constraint=true" : "weight=10";
  if (edge.critical) out += fmt::format(", color=\"{}\", penwidth=2", kCritical);
  if (edge.host) out += ", label=\"host\"";
  return out;
}

}  // namespace

std::string dot_quoted(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view character = text.substr(i, 3);
    if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") {
      out += "\xef\xbf\xbd";
      i += 2;
      continue;
    }
    const char c = text[i];
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string to_dot(const Run& run, const DependencyGraph& graph, const std::string& title) {
  std::string caption = fmt::format("{}: {}", shortened(title, kTooltipLetters), format_time(graph.length));
  if (graph.has_events)
    caption += fmt::format("; critical path in red: {} of work", format_time(graph.critical_busy));
  else
    caption += "; no event waits were recorded: which stream waited for which is not known";
  if (graph.critical_host.count > 0) caption += fmt::format(", {} of a late host", format_time(graph.critical_host));
  std::string out = "digraph step {\n";
  fmt::format_to(std::back_inserter(out),
                 "  label=\"{}\";\n  labelloc=t;\n  rankdir=LR;\n  fontname=\"sans-serif\";\n"
                 "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
                 "  edge [fontname=\"sans-serif\", fontsize=9, color=\"#666666\"];\n",
                 dot_quoted(caption));
  std::map<StreamId, std::size_t> streams;
  for (const GraphNode& node : graph.nodes) ++streams[node.stream];
  for (const auto& [stream, count] : streams) put_cluster(run, graph, stream, out);
  for (const GraphEdge& edge : graph.edges)
    fmt::format_to(std::back_inserter(out), "  n{} -> n{} [{}];\n", edge.from, edge.to, attributes(edge));
  return out + "}\n";
}

}  // namespace foreshard::viz
