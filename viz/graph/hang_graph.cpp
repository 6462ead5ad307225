#include "viz/graph/hang_graph.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/json_io.hpp"
#include "core/straggler/rank_members.hpp"
#include "viz/graph/dot_text.hpp"

namespace foreshard::viz {
namespace {

constexpr const char* kDead = "#f3c9b5";
constexpr const char* kWaiting = "#eef4fb";

using HangJson = nlohmann::json;

/// What of the answer is drawn; reading throws HangJson::exception where it is not as foreshard writes it.
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

DrawnHang drawn(const HangJson& hang) {
  DrawnHang out;
  std::size_t number = 0;
  for (const HangJson& dead : hang.at("dead")) {
    const auto rank = dead.at("rank").get<std::uint32_t>();
    out.node_of[rank] = number;
    put_node(out, number++, fmt::format("rank {}", rank),
             fmt::format("issues nothing from step {} on", dead.at("from_step").get<std::uint32_t>()), kDead);
  }
  const std::size_t first = number;
  for (const HangJson& group : hang.at("ranks")) {
    const auto ranks = group.at("ranks").get<std::vector<std::uint32_t>>();
    for (const std::uint32_t rank : ranks) out.node_of[rank] = number;
    put_node(out, number++, ranks_title(ranks),
             fmt::format("host at {}, step {}", group.at("host_stands_at").get<std::string>(),
                         group.at("host_step").get<std::uint32_t>()),
             kWaiting);
  }
  number = first;
  for (const HangJson& group : hang.at("ranks")) {
    for (const HangJson& wait : group.at("waits")) {
      std::set<std::size_t> whom;
      for (const HangJson& rank : wait.at("absent"))
        if (const auto at = out.node_of.find(rank.get<std::uint32_t>()); at != out.node_of.end())
          whom.insert(at->second);
      for (const std::size_t other : whom)
        fmt::format_to(std::back_inserter(out.edges), "  r{} -> r{} [label=\"{}\\n{}, {} ranks\"];\n", number, other,
                       dot_quoted(wait.at("collective").get<std::string>()),
                       dot_quoted(wait.at("communicator").get<std::string>()), wait.at("ranks").get<std::uint32_t>());
    }
    ++number;
  }
  return out;
}

}  // namespace

std::optional<std::string> hang_dot(const Run& run, const std::string& title) {
  const auto answer = run.results.find("hang");
  if (answer == run.results.end()) return std::nullopt;
  const HangJson hang = parse_json_text(answer->second);
  if (!hang.is_object()) return std::nullopt;
  try {
    const DrawnHang out = drawn(hang);
    return fmt::format(
        "digraph hang {{\n  label=\"{}\";\n  labelloc=t;\n  rankdir=LR;\n  fontname=\"sans-serif\";\n"
        "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=11];\n"
        "  edge [fontname=\"sans-serif\", fontsize=10, color=\"#666666\"];\n{}{}}}\n",
        dot_quoted(fmt::format(
            "{}: an edge is a collective that the left ones wait in and the right ones do not come to", title)),
        out.nodes, out.edges);
  } catch (const HangJson::exception&) {
    return std::nullopt;
  }
}

}  // namespace foreshard::viz
