#include "sim/ranks/link_delays.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

bool same_kernels(const OpTable& a, const OpTable& b) {
  return std::equal(a.ops().begin(), a.ops().end(), b.ops().begin(), b.ops().end(),
                    [](const OpTable::Op& one, const OpTable::Op& other) {
                      return one.stream == other.stream && one.communicator == other.communicator &&
                             (one.communicator.valid() || one.work == other.work);
                    });
}

}  // namespace

LinkDelays::LinkDelays(const std::vector<const HostProgram*>& programs) : programs_(programs) {
  for (const HostProgram* program : programs_) {
    std::uint32_t of = 0;
    while (!sim::same_kernels(program->table, programs_[of]->table)) ++of;
    references_.push_back(of);
    same_kernels_ = same_kernels_ && of == 0;
  }
}

void LinkDelays::add(std::uint32_t program, OpId collective, Delays& delays) const {
  const auto work = [&](std::uint32_t of) { return programs_[of]->table.op(collective).work >> kWorkShift; };
  const CommunicatorId communicator = programs_[program]->table.op(collective).communicator;
  const CommunicatorOptions& group = programs_[program]->communicators[communicator.value];
  delays.of(group.ranks > group.ranks_per_node ? Resource::network : Resource::nvlink) +=
      work(program) - work(references_[program]);
}

}  // namespace foreshard::sim
