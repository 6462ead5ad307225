#include "cli/reports/collective_doubts.hpp"

#include <utility>

#include "sim/machine/node_note.hpp"
#include "sim/machine/valid_range.hpp"

namespace foreshard::cli {

std::vector<std::string> doubts(const sim::MachineProfile& machine, const sim::CollectiveRequest& request,
                                const sim::CollectivePrice& price, JobShape job) {
  std::vector<std::string> out;
  if (!price.caveat.empty() && price.within == 0) out.push_back(price.caveat);
  sim::MachineUse use;
  use.largest_collective = request.bytes;
  use.ranks = {request.ranks};
  use.nodes = job.nodes;
  use.transports = {request.transport};
  for (std::string& text : outside(machine.valid_range, machine.name, use)) out.push_back(std::move(text));
  if (std::string note = sim::node_note(machine, job.gpus); !note.empty()) out.push_back(std::move(note));
  return out;
}

}  // namespace foreshard::cli
