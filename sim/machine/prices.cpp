#include "sim/machine/prices.hpp"

#include "sim/compute/price_kernel.hpp"

namespace foreshard::sim {
namespace {

Nanoseconds at_rate(Bytes bytes, double bytes_per_second) {
  return Nanoseconds::from_double(static_cast<double>(bytes) / bytes_per_second * 1e9);
}

}  // namespace

bool needs_price(const KernelWork& work) {
  const bool nothing = work.bytes == 0 && work.math.kind == KernelMath::Kind::bytes;
  return work.work.count <= 0 && !nothing;
}

Nanoseconds price(const MachineProfile& machine, const KernelWork& work) {
  return needs_price(work) ? price_kernel(machine, work).time : work.work;
}

Nanoseconds price(const MachineProfile& machine, const CopyWork& work) {
  if (work.work.count > 0) return work.work;
  const Rates& rates = machine.rates;
  switch (work.kind) {
    case CopyKind::peer_to_peer:
      return rates.copy_overhead + at_rate(work.bytes, rates.peer);
    case CopyKind::device_to_device:
      return rates.copy_overhead + at_rate(2 * work.bytes, rates.hbm);
    case CopyKind::host_to_device:
    case CopyKind::device_to_host:
      break;
  }
  return rates.copy_overhead + at_rate(work.bytes, rates.pcie);
}

}  // namespace foreshard::sim
