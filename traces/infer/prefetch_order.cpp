#include "traces/infer/prefetch_order.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

constexpr std::string_view kForward = "FSDP::forward_prefetch for ";
constexpr std::string_view kBackward = "FSDP::backward_prefetch for ";

using Targets = std::vector<std::string>;
using Lists = std::map<std::string, Targets>;

/// What a unit prefetched, each time that its hook ran.
using Seen = std::map<std::string, std::vector<Targets>>;

/// The list that came most often: a boundary of two ranges within one microsecond can misplace a target.
Lists most_frequent(const Seen& seen) {
  Lists out;
  for (const auto& [unit, lists] : seen) {
    std::map<Targets, std::size_t> count;
    for (const Targets& list : lists) ++count[list];
    const auto most =
        std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (!most->first.empty()) out.emplace(unit, most->first);
  }
  return out;
}

/// What `depth` next units of each unit would be (plan_prefetch, core/fsdp/prefetch.cpp).
Lists lists_of_depth(const std::vector<std::string>& units, std::size_t depth, bool forward) {
  Lists out;
  for (std::size_t i = 1; i < units.size(); ++i) {
    Targets targets;
    for (std::size_t k = 1; k <= depth; ++k) {
      if (forward && i + k < units.size()) targets.push_back(units[i + k]);
      if (!forward && i > k) targets.push_back(units[i - k]);
    }
    if (!targets.empty()) out.emplace(units[i], std::move(targets));
  }
  return out;
}

/// A unit whose hook never ran (frozen blocks in front have no backward) says nothing of its list.
void settle(const Seen& seen, const std::vector<std::string>& units, bool forward, std::optional<std::uint32_t>& depth,
            Lists& lists) {
  const Lists found = most_frequent(seen);
  if (found.empty()) return;
  std::size_t longest = 0;
  for (const auto& [unit, targets] : found) longest = std::max(longest, targets.size());
  longest = std::min(longest, units.size());
  Lists expected = lists_of_depth(units, longest, forward);
  std::erase_if(expected, [&](const auto& unit) { return !seen.contains(unit.first); });
  if (found == expected)
    depth = static_cast<std::uint32_t>(longest);
  else
    lists = found;
}

}  // namespace

PrefetchOrder prefetch_order(std::span<const Range> ranges, const std::vector<std::string>& units) {
  Seen forward;
  Seen backward;
  // The unit whose hook ran last. A root without parameters has no pre-forward and pre-backward ranges: its own targets
  // come behind FSDP::root_pre_forward, and before the first pre-backward of the pass.
  std::optional<std::string> in_forward;
  std::optional<std::string> in_backward;
  Nanoseconds hook_end;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (meaning.kind == RangeKind::root_pre_forward) {
      in_forward = in_backward = "";
      hook_end = range.end;
      forward[""].emplace_back();
      backward[""].emplace_back();
    } else if (meaning.kind == RangeKind::pre_forward) {
      in_forward = meaning.unit;
      if (!meaning.unit.empty() || forward[""].empty()) forward[*in_forward].emplace_back();
    } else if (meaning.kind == RangeKind::pre_backward) {
      in_backward = meaning.unit;
      hook_end = range.end;
      if (!meaning.unit.empty() || backward[""].empty()) backward[*in_backward].emplace_back();
    } else if (range.name.starts_with(kForward) && in_forward) {
      forward[*in_forward].back().emplace_back(without_group(range.name.substr(kForward.size())).first);
    } else if (range.name.starts_with(kBackward) && in_backward && range.start >= hook_end) {
      backward[*in_backward].back().emplace_back(without_group(range.name.substr(kBackward.size())).first);
    }
  }
  PrefetchOrder order;
  settle(forward, units, true, order.forward, order.lists.forward);
  settle(backward, units, false, order.backward, order.lists.backward);
  return order;
}

}  // namespace foreshard::traces
