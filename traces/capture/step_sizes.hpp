// Which steps of a recording differ, in what size, and which profiled step each takes its times from: sequence lengths
// that change from step to step.
//
// Who: capture.cpp. Pure, deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "traces/capture/program_builder.hpp"
#include "traces/capture/timing.hpp"

namespace foreshard::traces {

inline constexpr Bytes kTokenBytes = 8;  ///< torch.int64, which cross_entropy demands of its targets

/// FSDP2's and the optimizer's hooks that a step passes, in order: those of an evaluation too.
using HookPlaces = std::vector<std::pair<Hook, UnitId>>;
[[nodiscard]] HookPlaces hook_places(const StepTiming& timing);

struct StepSizes {
  /// By recorded step. Steps of the same hooks whose activations have the same sizes in the same order are of one size;
  /// sizes are numbered by first appearance.
  std::vector<std::size_t> size_of;
  std::vector<Bytes> bytes;       ///< by size: of its activations
  std::vector<HookPlaces> hooks;  ///< by size
  /// Steps request other memory than the ones before them. What only a process's first step requests (workspaces,
  /// what a compiler tries) does not count, nor what outlives its step.
  bool differ = false;
  /// After how many steps sizes repeat, the first step left out: 1 where all are equal, at most one less than there are
  /// steps.
  std::uint32_t cycle = 1;
  std::vector<RecordedStep> steps;  ///< by recorded step; empty where they do not differ
};

/// `settings` have batch and sequence length of one of the steps, or none: those of the others follow from the bytes of
/// its inputs, which are int64 tokens.
[[nodiscard]] StepSizes step_sizes(std::span<const std::vector<PlacedOp>> steps, const Settings& settings);

/// Where the times of a size come from.
struct TimesSource {
  std::size_t step = 0;              ///< the nearest among the profiled steps
  std::optional<std::size_t> other;  ///< another one: both together say how times grow
  double size = 1;                   ///< the size over that step's
  double other_size = 1;             ///< the other step's over that step's
  bool profiled = true;              ///< that step has the size itself
  bool same_hooks = true;            ///< that step passes the size's hooks; else no profiled one does
};

struct TimesSources {
  std::vector<TimesSource> of;                      ///< by size
  std::vector<std::optional<std::size_t>> size_of;  ///< by profiled step: its size; none: not a recorded one
  bool assumed = false;                             ///< that a profiled step has one of the sizes was taken for granted
};

/// `profiled`: one step of each size in the trace, at least one. A grid of an attention kernel says which size it has
/// (StepTiming::attention), or else the ratio of their elementwise kernels' grids.
[[nodiscard]] TimesSources times_sources(const StepSizes& sizes, std::span<const StepTiming* const> profiled);

/// A step between or beyond the profiled ones: user's kernels and copies grow from `near`'s to `other`'s (null: with
/// the size), by op where both issue the same ones, else all alike; never faster than the square of the size. Host
/// times and FSDP's sections are `near`'s.
[[nodiscard]] StepTiming scaled_timing(const StepTiming& near, const StepTiming* other, const TimesSource& source);

}  // namespace foreshard::traces
