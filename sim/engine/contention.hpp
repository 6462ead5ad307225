// How ops that run at the same time slow one another down.
//
// Who: sim/engine/engine.hpp, whenever anything starts or ends. Pure arithmetic on the profile's numbers
// (docs/model.md, "Contention").
//
// Rates are integers: work is counted in 1/2^20 ns, a rate is the work done in one nanosecond. So an op
// alone has rate 2^20, and every sum and comparison that decides an order is exact.
#pragma once

#include <cstdint>
#include <span>

#include "sim/machine/profile.hpp"

namespace foreshard::sim {

inline constexpr int kWorkShift = 20;
inline constexpr std::int64_t kFullRate = std::int64_t{1} << kWorkShift;

/// What one running op is to the others.
struct Party {
  enum class Role : std::uint8_t {
    main_kernel = 0,  ///< a kernel on the compute stream
    side_kernel = 1,  ///< a kernel on any other stream
    ring = 2,         ///< a collective on SMs
    copy_engine = 3,  ///< a collective or peer copy on copy engines
    apart = 4,        ///< shares nothing that is modelled: host copies
  };
  Role role = Role::apart;
  KernelClass kernel_class = KernelClass::memory_bound;
  double ring_slowdown = 0;  ///< of a kernel, measured; 0: its class's
  double ring_share = 1;     ///< of a ring: its SMs over those the slowdowns hold for
};

/// The rate of each of `running` (in any order), written to `rates` (same size).
void fill_rates(const MachineProfile& machine, std::span<const Party> running, std::span<std::int64_t> rates);

}  // namespace foreshard::sim
