#include "sim/collectives/copy_engines.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::sim {

double pulls_us(const MachineProfile& machine, const Group& group, double written) {
  return 2 * machine.nccl.barrier + group.ranks * machine.nccl.copy_start +
         transfer_us(group.wire(), machine.links.pull) + (group.shard() + written) / machine.rates.hbm * 1e6;
}

namespace {

/// Before its bytes move at full rate: a queued copy's start, and of the first 2 MiB what they move more slowly.
double copy_start_us(const MachineProfile& machine, const Group& group) {
  constexpr double kRamp = 2 * static_cast<double>(kMiB);
  return machine.nccl.copy_start + machine.nccl.copy_ramp * std::min(1.0, group.shard() / kRamp);
}

/// What the copies of further tensors add. All copies of a call are put at once, and start while others move: of nine
/// tensors of a Llama block, 218 and 436 MB, nothing (docs/own_program.md, What is still copied).
double late_starts_us(const MachineProfile& machine, const Group& group) {
  const double starts = (group.tensors - 1) * group.ranks * machine.nccl.copy_start;
  return std::max(0.0, starts - transfer_us(group.wire(), machine.links.pull));
}

}  // namespace

Estimate copy_engine_gather(const MachineProfile& machine, const Group& group) {
  Estimate out;
  const double wire = group.wire();
  out.us = 2 * machine.nccl.copy_engine_sync + transfer_us(wire, machine.links.push) +
           (group.ranks - 1) * copy_start_us(machine, group);
  out.uses = CollectiveResource::copy_engine;
  out.hbm = 2 * wire;
  out.link = wire;
  out.copied = wire;
  out.path = fmt::format("NCCL copy engines, {} pushes, no SM", group.ranks - 1);
  return out;
}

Estimate low_contention_gather(const MachineProfile& machine, const Group& group) {
  Estimate out;
  out.us = pulls_us(machine, group, group.shard()) + late_starts_us(machine, group);
  out.uses = CollectiveResource::copy_engine;
  out.hbm = 2 * group.wire() + 2 * group.shard();
  out.link = group.wire();  // this GPU's shard, read by its peers
  out.copied = group.bytes;
  out.host_us = group.ranks * machine.nccl.copy_issue;
  out.path = fmt::format("low-contention copies, {} pulls between two barriers", group.ranks);
  return out;
}

Estimate low_contention_scatter(const MachineProfile& machine, const Group& group) {
  Estimate out;
  const double sum_bytes = group.bytes + group.shard();
  const double sum_us = sum_bytes / machine.rates.memory_bound * 1e6 + machine.rates.kernel_overhead.us();
  out.us = pulls_us(machine, group, group.shard()) + sum_us;
  out.uses = CollectiveResource::copy_engine;
  out.sms = machine.sm_count * sum_us / out.us;
  out.hbm = 2 * group.bytes + sum_bytes;
  out.link = group.wire();
  out.copied = group.bytes;
  out.temporary = group.bytes;
  out.host_us = group.ranks * machine.nccl.copy_issue;
  out.path = fmt::format("low-contention copies, {} pulls into a temporary, then one sum", group.ranks);
  return out;
}

}  // namespace foreshard::sim
