// Whether a workload holds together, so that core/step may walk it without looking.
// Pure, deterministic: the first fault in file order is reported.
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// Sizes are bounded so that no sum of a simulation overflows, and so that a wrong file cannot ask for
/// more memory than it has bytes.
inline constexpr std::int64_t kMaxOpTime = 100'000'000'000'000;  ///< ns of one op or pause: 28 hours
inline constexpr Bytes kMaxAllocation = Bytes{1} << 50;          ///< bytes of one allocation, elements of a parameter
inline constexpr std::uint32_t kMaxTensors = 1'000'000;          ///< names of tensors in one program
inline constexpr std::size_t kMaxRecordedSteps = 10'000;         ///< a plan runs each

/// The settings hold together (check(Settings)); every id is in range; hooks of a unit name one; allocations have a
/// name; a name is allocated once a program; a free means a tensor that was allocated before it and is freed once;
/// times and sizes are within the bounds above. Errors are input errors with the place as a JSON path in `where`.
[[nodiscard]] Result<void> check_workload(const Workload& workload, std::string_view where);

}  // namespace foreshard::traces
