// The two compressed lists in Slurm's variables: hosts ("node[01-04,7],login") and tasks per host ("4(x2),3").
//
// Used by environment.cpp. Pure. Grammar: hostlist in Slurm's src/common/hostlist.c (brackets hold numbers and ranges,
// equal widths keep their zeros, more than one bracket multiplies out); uint32_compressed_to_str() in the same
// project's src/common/util-net.c writes the tasks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::gpu {

/// More hosts or tasks than this are refused: no cluster has them, a hostile list may.
inline constexpr std::size_t kMaxHosts = 65'536;

/// Every host, in the list's order.
[[nodiscard]] Result<std::vector<std::string>> slurm_hosts(std::string_view list);

/// Tasks of each host, in the hosts' order.
[[nodiscard]] Result<std::vector<std::uint32_t>> slurm_tasks_per_node(std::string_view list);

}  // namespace foreshard::gpu
