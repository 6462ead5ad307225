// How ops that run at the same time share the GPU, and what each loses by it (docs/contention.md).
//
// Who: sim/engine/engine.hpp, whenever anything starts or ends; traces/capture, which takes the same losses out of
// captured times. Pure arithmetic on the profile's numbers.
//
// A kernel loses SMs that collectives hold, in whole waves of tiles where it is a GEMM, and memory bandwidth
// that they take. A collective loses time to memory accesses that kernels delay, and link and network bandwidth to
// others.
//
// Rates are integers: work is counted in 1/2^20 ns, a rate is the work done in one nanosecond. So an
// isolated op has rate 2^20, and every sum and comparison that decides an order is exact.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim/engine/demand.hpp"

namespace foreshard::sim {

inline constexpr int kWorkShift = 20;
inline constexpr std::int64_t kFullRate = std::int64_t{1} << kWorkShift;

/// What one running op is to the others.
struct RunningOp {
  enum class Role : std::uint8_t {
    main_kernel = 0,  ///< a kernel on the compute stream
    side_kernel = 1,  ///< a kernel on any other stream
    collective = 2,   ///< a collective or peer copy
    apart = 3,        ///< shares nothing that is modelled: host copies, memsets
  };
  Role role = Role::apart;
  KernelDemand kernel = {};          ///< of the first two
  CollectiveDemand collective = {};  ///< of the third
};

/// A RunningOp as an op keeps it that waits or has run: a quarter of the size, to seven digits.
struct PackedRunningOp {
  std::array<float, 6> values = {};
  std::uint32_t tiles = 0;
  RunningOp::Role role = RunningOp::Role::apart;
  bool is_persistent = false;
  bool shaped = false;

  /// Starts before kernels of the compute stream do, and waits for resident ones.
  [[nodiscard]] bool needs_sms() const { return side() || (role == RunningOp::Role::collective && values[0] > 0); }
  [[nodiscard]] bool side() const { return role == RunningOp::Role::side_kernel; }
  [[nodiscard]] bool persistent() const { return role == RunningOp::Role::main_kernel && is_persistent; }
};

[[nodiscard]] inline PackedRunningOp pack(const RunningOp& running_op) {
  const auto all = [](auto... value) { return std::array{static_cast<float>(value)...}; };
  PackedRunningOp out;
  out.role = running_op.role;
  const CollectiveDemand& other = running_op.collective;
  const KernelDemand& kernel = running_op.kernel;
  if (running_op.role == RunningOp::Role::collective) {
    out.values = all(other.sms, other.link, other.traffic, other.latency, other.network, other.persistent_pressure);
  } else {
    out.values = all(kernel.sms, kernel.memory, kernel.pressure, kernel.clock, kernel.ring_slowdown, kernel.held);
    out.tiles = kernel.tiles;
    out.is_persistent = kernel.persistent;
    out.shaped = kernel.shaped;
  }
  return out;
}

[[nodiscard]] inline RunningOp unpack(const PackedRunningOp& packed) {
  RunningOp out;
  out.role = packed.role;
  const auto& v = packed.values;
  if (packed.role == RunningOp::Role::collective)
    out.collective = {v[0], v[1], v[2], v[3], v[4], v[5]};
  else
    out.kernel = {v[0], v[1], v[2], v[3], v[4], v[5], packed.tiles, packed.is_persistent, packed.shaped};
  return out;
}

/// A collective that waits for other ranks: it holds its SMs and moves nothing.
[[nodiscard]] inline RunningOp waiting(const RunningOp& running_op) {
  RunningOp out{running_op.role, {}, {}};
  out.collective.sms = running_op.collective.sms;
  return out;
}

/// How far an op is: all its work, what is left of it, and since when it runs, in ns.
struct Share {
  std::int64_t work = 0;
  std::int64_t remaining = 0;
  std::int64_t elapsed = 0;
};

/// The rate of each of `running` (in any order), written to `rates`. All three have the same size.
void fill_rates(const MachineProfile& machine, std::span<const RunningOp> running, std::span<const Share> shares,
                std::span<std::int64_t> rates);

/// What captured kernels lose to one kind of overlapping op of the usual size, as factors on their time.
/// Beside rings that hold `sms` SMs together, from the kernel's start to its end.
[[nodiscard]] double slowdown_with_rings(const MachineProfile& machine, const KernelDemand& kernel, double sms);
[[nodiscard]] double slowdown_with_copy_engine(const MachineProfile& machine, const KernelDemand& kernel);
/// Of a compute-stream kernel beside one of another stream.
[[nodiscard]] double slowdown_with_side_kernel(const MachineProfile& machine, const KernelDemand& kernel);

}  // namespace foreshard::sim
