// How long the compute stream's kernels take when no collective runs. Private to core/timeline.
//
// Nothing is modelled: a kernel's isolated time is the median over its twins that ran isolated in the same recording.
// Twins are ops with the same name, grid and block between the same neighbours on the compute stream: four on either
// side where such twins ran isolated, else two, one or none. The repeating layers of a model give every kernel twins,
// and the neighbours tell products of one name and grid but different depth apart. Twins whose isolated times differ by
// more than kUniform say nothing, and the next fewer neighbours are tried.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// One op of the compute stream.
struct ComputeOp {
  std::size_t index = 0;  ///< in Run::device_ops
  Nanoseconds start;
  Nanoseconds end;
  Nanoseconds overlapped;  ///< of it, while a collective runs on another stream

  [[nodiscard]] Nanoseconds length() const { return end - start; }
  /// Overlap below 2 % of its length does not count: it changes the length by less than kernels' own spread.
  [[nodiscard]] bool ran_isolated() const { return overlapped.count * 50 <= length().count; }
};

/// For each op of `ops` (in the order of the stream) its isolated time; nothing where no twin tells.
[[nodiscard]] std::vector<std::optional<Nanoseconds>> isolated_durations(const Run& run,
                                                                         const std::vector<ComputeOp>& ops);

}  // namespace foreshard
