// A process group of the user's program as a communicator of a run.
//
// Who: core/step makes communicators of them; sim/link_load asks which one a collective of a run was among. Pure.
#pragma once

#include "core/device/device.hpp"
#include "core/settings/mesh_groups.hpp"
#include "core/workload/process_group.hpp"

namespace foreshard {

/// `group`: on the mesh of `settings` (on_mesh()). Without members.
[[nodiscard]] inline CommunicatorOptions program_group(const ProcessGroup& group, const Settings& settings) {
  return {group.name,    group.ranks, group.ranks_per_node(settings.gpus), {}, node_stride(settings, group.stride),
          settings.nodes};
}

}  // namespace foreshard
