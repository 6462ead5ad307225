#include "viz/graph/hang_graph.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "core/straggler/hang_answer.hpp"
#include "core/straggler/rank_members.hpp"
#include "viz/graph/dot_text.hpp"

namespace foreshard::viz {
namespace {

constexpr const char* kDead = "#f3c9b5";
constexpr const char* kWaiting = "#eef4fb";

/// What of the answer is drawn.
struct DrawnHang {
  std::string nodes;
  std::map<std::uint32_t, std::size_t> node_of;  // by rank
  std::string edges;
};

std::string ranks_title(const std::vector<std::uint32_t>& ranks) {
  const std::string words = rank_words(runs_of(ranks));
  return ranks.size() == 1 ? "rank " + words : fmt::format("ranks {} ({})", words, ranks.size());
}

void put_node(DrawnHang& out, std::size_t number, const std::string& title, const std::string& below,
              const char* colour) {
  fmt::format_to(std::back_inserter(out.nodes), "  r{} [label=\"{}\\n{}\", fillcolor=\"{}\"];\n", number,
                 dot_quoted(title), dot_quoted(below), colour);
}

DrawnHang drawn(const HangAnswer& hang) {
  DrawnHang out;
  std::size_t number = 0;
  for (const HangAnswer::Dead& dead : hang.dead) {
    out.node_of[dead.rank] = number;
    put_node(out, number++, fmt::format("rank {}", dead.rank),
             fmt::format("issues nothing from step {} on", dead.from_step), kDead);
  }
  const std::size_t first = number;
  for (const HangAnswer::Ranks& group : hang.ranks) {
    for (const std::uint32_t rank : group.ranks) out.node_of[rank] = number;
    put_node(out, number++, ranks_title(group.ranks),
             fmt::format("host at {}, step {}", group.host_stands_at, group.host_step), kWaiting);
  }
  number = first;
  for (const HangAnswer::Ranks& group : hang.ranks) {
    for (const HangAnswer::Wait& wait : group.waits) {
      std::set<std::size_t> whom;
      for (const std::uint32_t rank : wait.absent)
        if (const auto at = out.node_of.find(rank); at != out.node_of.end()) whom.insert(at->second);
      for (const std::size_t other : whom)
        fmt::format_to(std::back_inserter(out.edges), "  r{} -> r{} [label=\"{}\\n{}, {} ranks\"];\n", number, other,
                       dot_quoted(wait.collective), dot_quoted(wait.communicator), wait.ranks);
    }
    ++number;
  }
  return out;
}

}  // namespace

std::optional<std::string> hang_dot(const Run& run, const std::string& title) {
  const auto hang = hang_answer(run);
  if (!hang) return std::nullopt;
  const DrawnHang out = drawn(*hang);
  return fmt::format(
      "digraph hang {{\n  label=\"{}\";\n  labelloc=t;\n  rankdir=LR;\n  fontname=\"sans-serif\";\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=10, color=\"#666666\"];\n{}{}}}\n",
      dot_quoted(fmt::format("{}: an edge is a collective that the left ones wait in and the right ones do not come to",
                             title)),
      out.nodes, out.edges);
}

}  // namespace foreshard::viz
