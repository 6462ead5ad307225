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
  /// Of a side kernel whose stream has the compute stream's priority: it and the compute stream's kernels take turns.
  bool in_turn = false;
  bool operator==(const RunningOp&) const = default;
};

/// A collective that waits for other ranks: it holds its SMs and moves nothing.
[[nodiscard]] inline RunningOp waiting(const RunningOp& running_op) {
  RunningOp out{running_op.role, {}, {}, false};
  out.collective.sms = running_op.collective.sms;
  return out;
}

/// A collective that had its SMs before a persistent kernel ran.
[[nodiscard]] inline RunningOp early(const RunningOp& running_op) {
  RunningOp out = running_op;
  out.collective.early = true;
  return out;
}

/// A collective that others on the fabric let run at `pace` (kFullRate: as it was priced): it takes as much of the GPU.
/// What it takes of the network is in the pace.
[[nodiscard]] inline RunningOp paced(const RunningOp& running_op, std::int64_t pace) {
  RunningOp out = running_op;
  const double factor = static_cast<double>(pace) / static_cast<double>(kFullRate);
  out.collective.link *= factor;
  out.collective.traffic *= factor;
  out.collective.network = 0;
  return out;
}

/// How far an op is: all its work, what is left of it, and since when it runs, in ns.
struct Share {
  std::int64_t work = 0;
  std::int64_t remaining = 0;
  std::int64_t elapsed = 0;
};

/// The rate of each of `running` (in any order), written to `rates`. All three have the same size.
void fill_rates(const MachineProfile& machine, std::span<const RunningOp* const> running, std::span<const Share> shares,
                std::span<std::int64_t> rates);
/// The same of ops that lie one behind the other.
void fill_rates(const MachineProfile& machine, std::span<const RunningOp> running, std::span<const Share> shares,
                std::span<std::int64_t> rates);

/// fill_rates() of an op of the compute stream and one other, as far as it is the same at every instant: what most
/// instants ask for. A collective that waits for other ranks is another one, waiting(). Only of a kernel and a
/// collective it is not always the same.
struct PairRates {
  /// What the kernel's rate depends on beyond the two.
  enum class Asks : std::uint8_t {
    nothing = 0,
    freed_tiles = 1,  ///< whether the collective ends first, and leaves its SMs to tiles that are not begun
    late_blocks = 2,  ///< how far both are
  };
  /// The kernel's time over its isolated time at full clock.
  struct Loss {
    Asks asks = Asks::nothing;
    double beside = 1;  ///< the collective, from start to end
    double freed = 1;   ///< where the collective ends first; of Asks::freed_tiles
  };
  std::int64_t other = 0;   ///< its rate
  std::int64_t beside = 0;  ///< the kernel's rates by `loss`, its clock taken into account
  std::int64_t freed = 0;
  Loss loss;
  double clock = 1;  ///< KernelDemand::clock
  bool holds_sms = false;
};
[[nodiscard]] PairRates pair_rates(const MachineProfile& machine, const RunningOp& kernel, const RunningOp& other);
/// The kernel's rate beside a collective with so much work left (Share::remaining).
[[nodiscard]] std::int64_t kernel_rate(const PairRates& pair, const Share& kernel, std::int64_t collective_remaining);

/// What captured kernels lose to one kind of overlapping op of the usual size, as factors on their time.
/// Beside rings that hold `sms` SMs together, from the kernel's start to its end.
[[nodiscard]] double slowdown_with_rings(const MachineProfile& machine, const KernelDemand& kernel, double sms);
[[nodiscard]] double slowdown_with_copy_engine(const MachineProfile& machine, const KernelDemand& kernel);
/// Of a compute-stream kernel beside one of another stream.
[[nodiscard]] double slowdown_with_side_kernel(const MachineProfile& machine, const KernelDemand& kernel);

}  // namespace foreshard::sim
