// How memory is laid over the lanes: at the times of the host that allocates, or phase by phase over what the GPU runs.
//
// Used by window.hpp and by the page (viz/pack). Pure; deterministic.
//
// Memory changes when the host asks for it, and the GPU runs that part of the program later; an import's memory and
// lanes are of different steps besides, each with its own clock. So there are two true pictures. `host`: where the host
// does the same part of the program: on one clock as recorded; of an import each phase of the snapshot's step over the
// same phase of the host's step in the trace. `gpu`: each phase over the GPU's, which is the one that the kernels below
// it belong to. In either, times between two knots are stretched evenly; before the first and behind the last they run
// as recorded.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

enum class MemoryOver : std::uint8_t { host = 0, gpu = 1 };

struct ClockKnot {
  Nanoseconds memory;  ///< on the memory's clock
  Nanoseconds axis;    ///< on the lanes' clock
};

/// Steps of the two sides that are the same part of the program: the last of each shown, and those before it.
struct SteppedPair {
  const StepRecord* memory = nullptr;
  const StepRecord* lanes = nullptr;
};

/// Ascending in both; of the phases, which are those of `pairs` with equal names in equal order. Empty where `pairs`
/// is, or, over the GPU, where nothing ran on the compute stream.
[[nodiscard]] std::vector<ClockKnot> clock_knots(const Run& run, const std::vector<SteppedPair>& pairs,
                                                 MemoryOver over);

/// The place on the lanes' clock of a time of the memory's. `knots` may not be empty.
[[nodiscard]] Nanoseconds placed(const std::vector<ClockKnot>& knots, Nanoseconds time);

}  // namespace foreshard::viz

namespace foreshard {

template <>
struct EnumNames<viz::MemoryOver> {
  static constexpr std::array<std::string_view, 2> kNames{"host", "gpu"};
};
static_assert(names_end_with(viz::MemoryOver::gpu));

}  // namespace foreshard
