// What a step takes at least by its machine's rates, beside what it takes: how far from the roof it ends, and in what.
//
// The work is the workload's: FLOPs of GEMMs and attentions, bytes of all other kernels (operands counted once), and
// what the step's collectives put on each link. The rates are the profile's: of large GEMMs (8192³ where they were
// measured), of fused attention, of device memory, of each link. Kernels of one stream run one behind another, so the
// compute stream's least is a sum; what runs beside it is a roof of its own. No contention, launch, wait or gap is in a
// least, so the roof is a bound and no prediction, as good as its rates: a kernel whose operands L2 holds, an attention
// of a fast shape or a link that the profile has too slow take less than their least.
//
// Who: cli's explain --time. Pure; deterministic; thread-safe; n log n in the run's ops.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/explain_time/time_explanation.hpp"
#include "core/link_load/link_load.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

enum class RoofKind : std::uint8_t { gemm = 0, attention = 1, bytes = 2, optimizer = 3, link = 4 };
}  // namespace foreshard::sim

namespace foreshard {
template <>
struct EnumNames<sim::RoofKind> {
  static constexpr std::array<std::string_view, 5> kNames{"gemm", "attention", "bytes", "optimizer", "link"};
};
}  // namespace foreshard

namespace foreshard::sim {

static_assert(names_end_with(RoofKind::link));

struct RoofRow {
  RoofKind kind = RoofKind::gemm;
  std::optional<LinkClass> link = {};  ///< of RoofKind::link
  bool beside_compute = false;         ///< runs on another stream than `compute`, or on no SM
  double work = 0;                     ///< FLOP (gemm, attention) or bytes
  double rate = 0;                     ///< the same a second; of several dtypes the mean that `least` comes from
  Nanoseconds least = {};
  Nanoseconds takes = {};  ///< the step's ops of the kind, their lengths added up; a link: something moves on it
};

struct Roofline {
  std::string machine;                 ///< name of the profile
  std::vector<RoofRow> rows;           ///< by kind, then by link; those with work alone
  Nanoseconds compute;                 ///< least of the rows that are not beside it
  Nanoseconds least;                   ///< the longest of that and each other row
  std::optional<std::size_t> longest;  ///< the row that is; none: the compute stream
};

/// Of the step that `step` explains. `workload`: the run's. None where its kernels have no shapes, as those of a
/// capture of PyTorch, which has their times alone.
[[nodiscard]] std::optional<Roofline> roofline(const Run& run, const Workload& workload, const LinkLoads& loads,
                                               const TimeExplanation& step, const MachineProfile& machine);

}  // namespace foreshard::sim
