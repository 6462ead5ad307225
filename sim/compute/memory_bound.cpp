// Kernels that move bytes: by the memory's rate, or where they walk views, by their elements.
#include <algorithm>

#include "sim/compute/parts.hpp"

namespace foreshard::sim::compute {
namespace {

/// What "/rates" say, for kernels that come with their bytes alone.
double by_rate(const MachineProfile& machine, const KernelWork& work) {
  const Rates& rates = machine.rates;
  const bool gather = work.kernel_class == KernelClass::gather_copy;
  return static_cast<double>(rates.kernel_overhead.count) * 1e-9 +
         static_cast<double>(work.bytes) / (gather ? rates.gather_copy : rates.memory_bound);
}

}  // namespace

double memory_time(const MachineProfile& machine, double bytes, double share, bool cached) {
  const double peak = machine.peaks.memory_bandwidth;
  const double cold = bytes / (share * peak);
  if (!cached) return cold;
  const double limit = machine.compute.l2_share * static_cast<double>(machine.peaks.l2);
  const double hot = bytes / (std::max(machine.compute.l2_rate, share) * peak);
  const double missed = std::clamp((bytes - limit) / (machine.compute.rules.l2_fade * limit), 0.0, 1.0);
  return hot + (cold - hot) * missed;
}

Seconds memory_bound(const MachineProfile& machine, const KernelWork& work) {
  const KernelMath& math = work.math;
  const bool plain = math.access == MemoryAccess::contiguous && math.m == 0;
  if (!machine.compute.known || plain || work.kernel_class == KernelClass::gather_copy) return {by_rate(machine, work)};
  const AccessSpec& spec = machine.compute.memory[static_cast<std::size_t>(math.access)];
  const double bytes = static_cast<double>(work.bytes);
  // Unknown elements: as many as are read once and written once.
  const double elements =
      math.m > 0 ? static_cast<double>(math.m) : bytes / (2 * static_cast<double>(itemsize(math.dtype)));
  double time = memory_time(machine, bytes, spec.memory_share, true);
  time = std::max(time, elements / (spec.elements_per_clock * machine.sm_count * machine.peaks.clock_hz));
  if (elements > 0)
    time = std::max(
        time, spec.chunk_us * 1e-6 * bytes / elements * std::min(1.0, elements / machine.compute.rules.full_chunks));
  return {spec.launch_us * 1e-6 + time};
}

}  // namespace foreshard::sim::compute
