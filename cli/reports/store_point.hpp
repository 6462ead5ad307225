// How the best of a search is stored: sweep's and tune's -o.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/reports/plan_answer.hpp"
#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::cli {

/// Where to, and what was searched.
struct PointOutput {
  std::string path;  ///< -o
  std::string name;  ///< of the run; empty: the workload's
  bool force = false;
  std::string source;  ///< as the user gave it
  std::optional<Bytes> memory_limit;
  PlanBasis basis;                                         ///< basis_of() the source
  sim::Differences differences = {};                       ///< of the job's ranks and links
  std::vector<std::pair<std::string, Json>> results = {};  ///< what else is kept of the search, by key
};

/// Writes the point's run, as `plan -o` writes it, with what the search says against it. Errors: sim::predict()'s and
/// store_run()'s.
[[nodiscard]] Result<void> store_point(const sim::SweepPoint& point, const PointOutput& output,
                                       const sim::MachineProfile& machine, sim::WorkloadSource& workloads);

}  // namespace foreshard::cli
