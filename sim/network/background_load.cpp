#include "sim/network/background_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/units.hpp"

namespace foreshard::sim {
namespace {

constexpr const char* kOption = "--background-load";

tl::unexpected<Error> refuse(std::string_view part, const std::string& why) {
  return fail(ErrorKind::usage, fmt::format("{} '{}': {}", kOption, part, why), {},
              "as in --background-load adapters=5GB/s,uplinks=30%, or all=25%");
}

/// "30%", or "5GB/s" of `whole` bytes a second; 0: a rate of it is not known.
Result<double> parse_share(std::string_view part, std::string_view text, double whole) {
  double share = 0;
  const bool percent = text.ends_with('%');
  if (percent) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, share);
    if (error != std::errc() || end != text.data() + text.size() - 1)
      return refuse(part, fmt::format("'{}' is no percentage", text));
    share /= 100;
  } else {
    if (whole <= 0) return refuse(part, "a load of links between switches is a share of them, in percent");
    const auto rate = parse_bandwidth(text);  // which takes a bare number for bytes a second
    if (!rate || !text.ends_with('s'))
      return refuse(part, fmt::format("'{}' is neither a percentage nor a rate", text));
    share = *rate / whole;
  }
  if (share > 0 && share < 1) return share;
  return refuse(part, percent ? std::string("a load is above 0 % and below 100 %")
                              : fmt::format("a load is above nothing and below the {} that an adapter carries",
                                            format_bandwidth(whole)));
}

Result<void> say_once(std::string_view part, double& of, double share) {
  if (of > 0) return refuse(part, "these links have a load already");
  of = share;
  return {};
}

}  // namespace

Result<BackgroundLoad> parse_background_load(std::string_view text, const Network& network) {
  constexpr double kGB = 1e9;
  BackgroundLoad out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return refuse(part, "is not LINKS=SHARE");
    const std::string_view links = part.substr(0, equals);
    const bool adapters = links == "adapters", uplinks = links == "uplinks", all = links == "all";
    if (!adapters && !uplinks && !all) return refuse(part, "links are adapters, uplinks (between switches) or all");
    const auto share =
        parse_share(part, part.substr(equals + 1), adapters ? kGB * network.nic * network.efficiency : 0);
    FORESHARD_TRY(share);
    if (adapters || all) FORESHARD_TRY(say_once(part, out.adapters, *share));
    if (uplinks || all) FORESHARD_TRY(say_once(part, out.uplinks, *share));
  }
  return out;
}

std::string words(const BackgroundLoad& load) {
  std::string out = "other traffic takes ";
  if (load.adapters > 0) out += fmt::format("{:.3g} % of each adapter", 100 * load.adapters);
  if (load.adapters > 0 && load.uplinks > 0) out += " and ";
  if (load.uplinks > 0) out += fmt::format("{:.3g} % of the links between switches", 100 * load.uplinks);
  return out;
}

Result<void> check_background_load(const UsedNodes& used, const BackgroundLoad& load,
                                   std::span<const SlowAdapter> adapters) {
  if (load.any() && used.nodes < 2)
    return fail(ErrorKind::usage, "nothing of a job on one node goes over links that other traffic has a part of",
                kOption, "leave it out, or give --nodes");
  if (load.uplinks > 0 && used.network.leaf_nodes == 0 && used.network.group_nodes == 0)
    return fail(ErrorKind::usage, "on a fabric that blocks nowhere no link between switches is looked at", kOption,
                "say how the nodes are wired, as in --fabric fat-tree:4:2, or load the adapters alone");
  for (const SlowAdapter& slow : adapters)
    if (load.adapters * slow.slowdown >= 1)
      return fail(
          ErrorKind::usage,
          fmt::format("adapter {}.{} carries {:.3g} % of a healthy one's bytes, and other traffic takes them all",
                      slow.node, slow.adapter, 100 / slow.slowdown),
          kOption, "the load is a share of a healthy adapter");
  return {};
}

}  // namespace foreshard::sim
