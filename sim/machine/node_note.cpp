#include "sim/machine/node_note.hpp"

#include <fmt/format.h>

namespace foreshard::sim {

std::string node_note(const MachineProfile& machine, std::uint32_t gpus) {
  if (gpus <= machine.links.gpus) return {};
  return fmt::format(
      "profile {} has nodes of {} GPUs; {} a node are taken to be one NVLink domain (--nodes for more "
      "nodes)",
      machine.name, machine.links.gpus, gpus);
}

}  // namespace foreshard::sim
