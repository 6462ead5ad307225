#include "traces/infer/process_groups.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace foreshard::traces {

std::vector<ProcessGroup> process_groups_of(std::span<const TraceCommunicator> communicators) {
  std::vector<ProcessGroup> groups;
  for (const TraceCommunicator& communicator : communicators) {
    ProcessGroup group;
    // new_group() without a group_desc says "undefined" (torch/distributed/distributed_c10d.py).
    const bool described = !communicator.description.empty() && communicator.description != "undefined";
    group.name = described ? communicator.description : "group " + communicator.name;
    group.ranks = static_cast<std::uint32_t>(std::min<std::uint64_t>(communicator.size, UINT32_MAX));
    std::array<std::uint32_t, 2> members{};
    const char* at = communicator.ranks.data();
    const char* end = at + communicator.ranks.size();
    std::size_t found = 0;
    while (at < end && found < members.size()) {
      const auto [next, error] = std::from_chars(at, end, members[found]);
      if (error == std::errc()) ++found;
      at = error == std::errc() ? next : at + 1;
    }
    if (found == members.size() && members[1] > members[0]) group.stride = members[1] - members[0];
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace foreshard::traces
