// Holds a generated workload against a recorded one, request by request.
#pragma once

#include <cstdint>
#include <string>

#include "core/workload/workload.hpp"

namespace foreshard::reference {

/// Requests are allocations (bytes, whose gradient), frees (of which allocation) and hooks, in order. Kernels are not
/// compared: a recording places them by time.
struct SequenceDiff {
  std::uint64_t requests = 0;    ///< of the recording: setup and all steps
  std::uint64_t different = 0;   ///< from the first difference of a program to its end
  std::uint64_t categories = 0;  ///< equal allocations that stand in another category
  std::string first;             ///< program, position and the two ops where they first differ; empty: equal
  [[nodiscard]] bool same() const { return first.empty(); }
};

[[nodiscard]] SequenceDiff compare_sequences(const Workload& recorded, const Workload& generated);

}  // namespace foreshard::reference
