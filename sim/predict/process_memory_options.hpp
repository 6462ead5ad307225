// The device memory that a simulated process finds: the machine's, and, of a recording's own process, its addresses.
//
// Who: simulate(), sim/forecast. Pure.
#pragma once

#include <optional>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct ProcessMemoryOptions {
  SimMemoryOptions memory;
  bool follows_recording = false;  ///< the recorded process's addresses are given again
};

/// For `workload` at `settings` on `machine`, of which the caching allocator may take `limit` (none: all of it). At the
/// recorded settings and with `follow_recording` the recorded addresses; else the process would have done other things,
/// and memory keeps clear of what is older than the recording.
[[nodiscard]] ProcessMemoryOptions process_memory_options(const Workload& workload, const Settings& settings,
                                                          const MachineProfile& machine, std::optional<Bytes> limit,
                                                          bool follow_recording);

}  // namespace foreshard::sim
