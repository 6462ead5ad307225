// What was allocated at the peak of one step. Private to core/compare.
//
// The rules are those of the store's views memory_change and peak_by_category (a test holds both together).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/compare/compare.hpp"
#include "core/run/run.hpp"

namespace foreshard {

struct PeakMemory {
  std::map<MemoryCategory, std::int64_t> categories;
  std::map<std::string, std::int64_t> units;  ///< by name; "root"; empty: blocks of no unit
  std::int64_t before_recording = 0;          ///< of blocks never seen allocated
};

/// At the first moment of the most allocated bytes within the step, the state at its begin included. Sets
/// `step.peak_time`.
[[nodiscard]] PeakMemory peak_memory(const Run& run, const StepRecord& record, PeakStep& step);

}  // namespace foreshard
