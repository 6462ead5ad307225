// Which ranks the collectives of a run were among.
//
// A run numbers its communicators and does not describe them. What is known: FSDP2's groups, from the settings; the
// groups of the program's own collectives, from its workload, with the kinds and sizes of what it issues in each. So a
// communicator whose collectives are all ones that the program issues in one of its groups is that group; else one of
// all-reduces is the mesh's replicate dimension; one of all-gathers alone, of a unit that an int reshard_after_forward
// keeps together and whose first gather in the run was on another communicator, is that unit's post-forward group; one
// that the first unit never uses is, under expert parallelism, the part of the shard dimension that experts are sharded
// over; any other one of all-gathers and reduce-scatters is the shard dimension (the reduce-scatters' own communicator,
// too).
//
// Who: link_loads.cpp. Pure; deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/device/device.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

struct RunGroup {
  CommunicatorOptions options;    ///< without members
  std::uint32_t rank_stride = 1;  ///< between the global ranks of neighbours
  /// Its lowest rank, where `rank` is one of its own.
  [[nodiscard]] std::uint32_t first(std::uint32_t rank) const {
    return rank - rank / rank_stride % options.ranks * rank_stride;
  }
};

class RunGroups {
 public:
  /// `ops`: of one rank of the run. `workload`: the run's; null: it has none.
  RunGroups(const Run& run, const std::vector<DeviceOpRecord>& ops, const Workload* workload);

  /// Of one of the collectives; none: not known.
  [[nodiscard]] std::optional<RunGroup> of(const DeviceOpRecord& collective) const;

 private:
  std::map<CommunicatorId, std::optional<RunGroup>> groups_;
};

}  // namespace foreshard::sim
