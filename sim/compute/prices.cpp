#include "sim/compute/prices.hpp"

#include <algorithm>

#include "sim/compute/price_kernel.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

Nanoseconds copied(const Rates& rates, double bytes, double bytes_per_second) {
  return op_time(static_cast<double>(rates.copy_overhead.count) + bytes / bytes_per_second * 1e9);
}

}  // namespace

bool needs_price(const KernelWork& work) {
  const bool nothing = work.bytes == 0 && work.math.kind == KernelMath::Kind::bytes;
  return work.work.count <= 0 && !nothing;
}

Nanoseconds price(const MachineProfile& machine, const KernelWork& work) {
  return needs_price(work) ? price_kernel(machine, work).time : std::min(work.work, kLongestOp);
}

Nanoseconds price(const MachineProfile& machine, const CopyWork& work) {
  if (work.work.count > 0) return std::min(work.work, kLongestOp);
  const Rates& rates = machine.rates;
  const auto bytes = static_cast<double>(work.bytes);
  switch (work.kind) {
    case CopyKind::peer_to_peer:
      return copied(rates, bytes, rates.peer);
    case CopyKind::device_to_device:
      return copied(rates, 2 * bytes, rates.hbm);
    case CopyKind::host_to_device:
    case CopyKind::device_to_host:
      break;
  }
  return copied(rates, bytes, rates.pcie);
}

}  // namespace foreshard::sim
