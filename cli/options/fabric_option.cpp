#include "cli/options/fabric_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "sim/network/fabric.hpp"

namespace foreshard::cli {
namespace {

struct FabricKind {
  std::string_view name;
  std::size_t levels = 0;  ///< at most
};
constexpr std::array kFabrics{FabricKind{"flat", 0}, FabricKind{"fat-tree", 2}, FabricKind{"rail", 1},
                              FabricKind{"rail-only", 0}, FabricKind{"dragonfly", 1}};

/// "NODES[:OVER]".
struct Level {
  std::uint32_t nodes = 0;
  double oversubscription = 1;
};

Error wrong(const std::string& text, const std::string& what) {
  return Error{
      ErrorKind::usage,
      fmt::format("--fabric {}: {}", text, what),
      {},
      "as in fat-tree:16:2,128:4, rail:32, rail-only, dragonfly:8:2, flat, fat-tree:16+sharp or rail:32+no-pxn"};
}

Result<Level> read_level(const std::string& text, std::string_view part) {
  Level level;
  const std::size_t colon = part.find(':');
  const std::string_view nodes = part.substr(0, colon);
  const auto [end, error] = std::from_chars(nodes.data(), nodes.data() + nodes.size(), level.nodes);
  if (error != std::errc() || end != nodes.data() + nodes.size() || level.nodes == 0)
    return tl::unexpected(wrong(text, fmt::format("'{}' is no number of nodes", nodes)));
  if (colon == std::string_view::npos) return level;
  const std::string_view over = part.substr(colon + 1);
  const auto [stop, failure] = std::from_chars(over.data(), over.data() + over.size(), level.oversubscription);
  if (failure != std::errc() || stop != over.data() + over.size() ||
      !(level.oversubscription >= 1 && level.oversubscription <= 1000))
    return tl::unexpected(wrong(text, fmt::format("'{}' is no oversubscription from 1 to 1000", over)));
  return level;
}

/// What stands behind a fabric, each at most once.
struct Suffixes {
  bool sharp = false;
  bool no_pxn = false;
};

Suffixes take_suffixes(std::string& text) {
  Suffixes out;
  const auto take = [&](std::string_view word, bool& found) {
    if (found || !text.ends_with(word)) return false;
    text.resize(text.size() - word.size());
    return found = true;
  };
  while (take("+sharp", out.sharp) || take("+no-pxn", out.no_pxn)) {
  }
  return out;
}

Result<void> check_suffixes(const std::string& whole, std::string_view kind, const Suffixes& suffixes,
                            const sim::Network& network) {
  if (suffixes.no_pxn && kind == "rail-only")
    return tl::unexpected(wrong(whole, "without PXN no message comes to another rail of these, which are not linked"));
  if (!suffixes.sharp) return {};
  if (kind == "dragonfly") return tl::unexpected(wrong(whole, "sums in the switches of a dragonfly are not modelled"));
  if (network.sharp_efficiency > 0) return {};
  return tl::unexpected(
      Error{ErrorKind::usage,
            fmt::format("--fabric {}: the profile does not say what a switch that adds carries", whole),
            {},
            "give it /network/sharp_efficiency and its other sharp_ constants, as h200 has them"});
}

}  // namespace

Result<void> set_fabric(const std::string& whole, sim::Network& network) {
  std::string text = whole;
  const Suffixes suffixes = take_suffixes(text);
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  std::vector<Level> levels;
  for (std::string_view rest = colon == std::string::npos ? std::string_view()
                                                          : std::string_view(text).substr(colon + 1);
       colon != std::string::npos;) {
    const std::size_t comma = rest.find(',');
    const auto level = read_level(text, rest.substr(0, comma));
    FORESHARD_TRY(level);
    levels.push_back(*level);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const auto fabric =
      std::find_if(kFabrics.begin(), kFabrics.end(), [&](const FabricKind& f) { return f.name == kind; });
  if (fabric == kFabrics.end()) return tl::unexpected(wrong(text, fmt::format("there is no fabric '{}'", kind)));
  const std::size_t most = fabric->levels;
  if (levels.size() > most)
    return tl::unexpected(wrong(
        text, most == 0 ? fmt::format("{} has no levels", kind)
                        : fmt::format("{} has {} level{}, not {}", kind, most, most == 1 ? "" : "s", levels.size())));
  if (levels.empty() && most > 0) return tl::unexpected(wrong(text, "how many nodes?"));
  if (levels.size() == 2 && (levels[1].nodes <= levels[0].nodes || levels[1].nodes % levels[0].nodes != 0))
    return tl::unexpected(wrong(text, "a pod is made of several whole leaves"));
  FORESHARD_TRY(check_suffixes(whole, kind, suffixes, network));
  network.sharp = suffixes.sharp;
  if (suffixes.no_pxn) network.pxn = false;
  network.rail_switches = kind == "rail" || kind == "rail-only";
  network.rails_linked = kind != "rail-only";
  network.leaf_nodes = network.pod_nodes = network.group_nodes = 0;
  network.oversubscription = network.pod_oversubscription = 1;
  if (levels.empty()) return {};
  (kind == "dragonfly" ? network.group_nodes : network.leaf_nodes) = levels[0].nodes;
  network.oversubscription = levels[0].oversubscription;
  if (levels.size() < 2) return {};
  network.pod_nodes = levels[1].nodes;
  network.pod_oversubscription = levels[1].oversubscription;
  return {};
}

std::string fabric_note(const std::string& fabric, const sim::Network& network, std::uint32_t gpus,
                        std::uint32_t nodes) {
  if (fabric.empty()) return {};
  if (nodes <= 1)
    return fmt::format("the fabric {} changes nothing: all GPUs are inside one node, and none of it is between them",
                       fabric);
  const bool has_levels = network.leaf_nodes > 0 || network.group_nodes > 0;
  if (!has_levels || network.sharp) return {};
  const sim::Fabric wired(network, gpus, nodes);
  const bool shares = std::any_of(wired.links().begin(), wired.links().end(), [](const sim::Link& link) {
    return link.kind != sim::Link::Kind::adapter_out && link.kind != sim::Link::Kind::adapter_in;
  });
  if (shares) return {};
  return fmt::format("the fabric {} is as good as flat here: all {} nodes are {}", fabric, nodes,
                     network.group_nodes > 0
                         ? "in one of its groups, and nothing goes out of it"
                         : "below one leaf switch (of each rail, below one of that rail's), and nothing goes above it");
}

Result<void> check_fabric_is_used(const std::string& text, std::uint32_t nodes) {
  if (text.empty() || nodes > 1) return {};
  return fail(ErrorKind::usage, "nothing of a job on one node goes over a fabric", "--fabric",
              "leave it out, or give --nodes");
}

}  // namespace foreshard::cli
