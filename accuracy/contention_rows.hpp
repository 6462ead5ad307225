// Measured slowdowns of a kernel beside a collective, and of the collective, held against sim/engine's contention.
//
// Who: cli's accuracy, tests/accuracy. The rows are docs/data/contention_rows.txt, compiled in; its head says
// what a row is. Pure.
#pragma once

#include <string>
#include <vector>

#include "sim/machine/profile.hpp"

namespace foreshard::accuracy {

struct ContentionCheck {
  enum class How : std::uint8_t {
    rows = 0,     ///< a row of kernels beside a row of collectives, waits and gaps included
    covered = 1,  ///< kernels that ran concurrently with one collective from start to end
  };
  How how = How::covered;
  std::string name;  ///< kernel, transport with its CTAs, collective
  // Time side by side over time alone; 0: not measured.
  double kernel_measured = 0;
  double collective_measured = 0;
  double kernel_model = 0;
  double collective_model = 0;
};

/// Every row, priced by `machine`, in the file's order.
[[nodiscard]] std::vector<ContentionCheck> check_contention(const sim::MachineProfile& machine);

}  // namespace foreshard::accuracy
