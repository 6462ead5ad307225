#include "core/link_load/link_load.hpp"

#include <algorithm>
#include <set>

namespace foreshard {
namespace {

/// Of [a, b) inside [from, to).
Nanoseconds overlap(Nanoseconds a, Nanoseconds b, Nanoseconds from, Nanoseconds to) {
  return std::max(std::min(b, to) - std::max(a, from), Nanoseconds{0});
}

}  // namespace

std::string_view title(LinkClass link) {
  switch (link) {
    case LinkClass::nvlink:
      return "NVLink";
    case LinkClass::pcie:
      return "PCIe slot";
    case LinkClass::adapter:
      return "adapter";
    case LinkClass::leaf:
      return "leaf uplink";
    case LinkClass::pod:
      return "pod uplink";
    case LinkClass::group:
      break;
  }
  return "group link";
}

LinkUse link_use(const LinkLoad& link, const TimeExplanation& step) {
  LinkUse use;
  const std::vector<LoadStretch> load = load_over_time(link);
  std::set<std::size_t> users;
  for (const LinkTransfer& transfer : link.transfers) {
    users.insert(transfer.op);
    if (transfer.end <= transfer.begin && transfer.begin >= step.begin && transfer.begin < step.end)
      use.bytes += transfer.bytes;  // in no stretch
  }
  for (const LoadStretch& stretch : load) {
    const Nanoseconds inside = overlap(stretch.begin, stretch.end, step.begin, step.end);
    if (inside.count == 0) continue;
    use.bytes += stretch.gb_s * static_cast<double>(inside.count);
    use.busy += inside;
    use.peak_gb_s = std::max(use.peak_gb_s, stretch.gb_s);
    if (stretch.gb_s >= kFullLink * link.most) use.full += inside;
  }
  if (step.length().count > 0) use.mean_gb_s = use.bytes / static_cast<double>(step.length().count);
  for (const IdlePart& part : step.parts) {  // by time, as the load is
    if (!is_communication(part.cause) || !users.contains(part.op)) continue;
    use.waited += part.length();
    Nanoseconds moved;
    for (auto at = std::upper_bound(load.begin(), load.end(), part.start,
                                    [](Nanoseconds time, const LoadStretch&of) { return time < of.end; });
         at != load.end() && at->begin < part.end; ++at)
      moved += overlap(at->begin, at->end, part.start, part.end);
    use.waited_idle += part.length() - moved;
  }
  return use;
}

}  // namespace foreshard
