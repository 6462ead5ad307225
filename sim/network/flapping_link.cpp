#include "sim/network/flapping_link.hpp"

#include <fmt/format.h>

#include <limits>

namespace foreshard::sim {
namespace {

/// Since it last went down.
std::int64_t into_period(const Flap& flap, Nanoseconds at) {
  const std::int64_t period = flap.link.period.count;
  return ((at - flap.phase).count % period + period) % period;
}

}  // namespace

bool Flap::is_down(Nanoseconds at) const {
  return into_period(*this, at) < link.down.count;
}

Nanoseconds Flap::next_change(Nanoseconds at) const {
  if (link.down.count == 0) return {std::numeric_limits<std::int64_t>::max()};
  const std::int64_t since = into_period(*this, at);
  return {at.count - since + (since < link.down.count ? link.down.count : link.period.count)};
}

std::string words(const FlappingLink& link) {
  if (link.kind == FlappingLink::Kind::adapter) return fmt::format("adapter {}.{}", link.place, link.adapter);
  return fmt::format("the uplinks of leaf switch {}", link.place);
}

Result<void> check_flapping_link(const UsedNodes& used, const FlappingLink& link) {
  if (link.kind == FlappingLink::Kind::adapter)
    return check_adapter(used, link.place, link.adapter, "--flapping-adapter", "as in 1.3=200ms/2s: node 1, adapter 3");
  const Network& network = used.network;
  const std::uint32_t leaves = network.leaf_nodes > 0 ? (used.nodes + network.leaf_nodes - 1) / network.leaf_nodes : 0;
  if (leaves < 2)
    return fail(ErrorKind::usage, "the job has no leaf switches whose uplinks it uses", "--flapping-uplinks",
                "say how more nodes than a leaf has are wired, as in --fabric fat-tree:4:2");
  if (link.place < leaves) return {};
  return fail(ErrorKind::usage, fmt::format("there is no leaf switch {} in a job of {}", link.place, leaves),
              "--flapping-uplinks", fmt::format("leaf switches are numbered from 0 to {}", leaves - 1));
}

}  // namespace foreshard::sim
