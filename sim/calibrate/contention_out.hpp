// Takes the contention of a capture out of its device times (time model 1.2): the isolated time of each op.
//
// An op of the compute stream of duration d that ran beside rings for t_ring, beside a copy-engine all-gather for t_ce
// and beside a kernel of another stream for t_side has
//     work = d - t_ring (1 - 1/s) - t_side (1 - 1/s_side) - t_ce (1 - 1/s_ce),  at least 0.3 d;
// a kernel on another stream that ran concurrently with compute for t_cur has work = d - t_cur (1 - 1/c). The slowdowns
// are the machine's by kernel class; s is the op's own where the capture shows its signature at least six
// times isolated and six times beside a ring.
//
// Who: timing.cpp. Pure, deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/run/run.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::traces {

/// What contention needs to know of one device op, in addition to its record.
struct ContendedOp {
  static constexpr std::uint32_t kNoSignature = 0xffffffffu;
  std::optional<KernelClass> kernel_class;  ///< where it is known from the op's place; else its name tells
  std::uint32_t signature = kNoSignature;   ///< equal for ops that do the same work, in other layers or steps
};

struct FreedOp {
  Nanoseconds work;
  KernelClass kernel_class = KernelClass::memory_bound;
  double ring_slowdown = 0;  ///< measured for the op's signature; 0: the class's own was used
};

/// One answer for each of run.device_ops; `ops` is parallel to them. Collectives get their duration, which
/// is no cost: it contains the wait for other ranks.
[[nodiscard]] std::vector<FreedOp> free_of_contention(const Run& run, std::span<const ContendedOp> ops,
                                                      StreamId compute, const sim::MachineProfile& machine);

}  // namespace foreshard::traces
