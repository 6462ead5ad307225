#include "sim/collectives/pull_reduce.hpp"

#include "sim/collectives/copy_engines.hpp"

namespace foreshard::sim {

Estimate pull_reduce(const MachineProfile& machine, const Group& group) {
  Estimate out;
  out.us = pulls_us(machine, group, group.result());
  out.uses = CollectiveResource::symmetric;
  out.sms = machine.contention.own_reduce.of(static_cast<std::uint32_t>(group.ranks), group.upcasts);
  out.hbm = group.bytes + group.result();
  out.link = group.wire();
  out.path = "pull-reduce, a few CTAs";
  return out;
}

}  // namespace foreshard::sim
