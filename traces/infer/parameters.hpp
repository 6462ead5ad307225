// Parameters of the recorded units: element counts, dtypes, which of them are trained, and as much of their shapes as
// padding shows. Names are not in a recording: "<unit>.p0", "<unit>.p1", … in fully_shard's order.
//
// Who: infer.cpp. Pure, deterministic, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/workload/unit.hpp"
#include "traces/infer/element_sizes.hpp"
#include "traces/infer/recorded_units.hpp"

namespace foreshard::traces {

struct InferredParameters {
  std::vector<Unit> units;  ///< as `recorded`, in order
  std::size_t uneven = 0;   ///< parameters whose padding shows their rows
  std::size_t flat = 0;     ///< parameters whose rows are not known: one dimension stands for all
  std::size_t frozen = 0;
  std::size_t alike = 0;        ///< units with frozen and trained parameters of one size: their order alone decides
  std::size_t frozen_flat = 0;  ///< frozen ones: no gradient shows whether they are padded
  std::string why_not;          ///< why the units are not complete: a clause; empty: they are
};

[[nodiscard]] InferredParameters infer_parameters(std::span<const RecordedUnit> recorded, const ElementTypes& types);

/// The elements behind the first dimension of a parameter of `numel` elements whose padded shard over `ranks` ranks has
/// `shard` elements (torch.chunk's rows; core/shard/layout.hpp); 0: none fits.
[[nodiscard]] std::uint64_t elements_per_row(std::uint64_t numel, std::uint64_t shard, std::uint32_t ranks);

}  // namespace foreshard::traces
