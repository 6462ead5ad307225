// `foreshard explain RUN --time`: where the step's time goes, and what would make it faster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/terminal/console.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::cli {

struct ExplainedTime {
  const Run& run;
  std::string path;                          ///< RUN as given
  std::shared_ptr<const Workload> workload;  ///< null: nothing to simulate remedies from
  std::string no_remedies;                   ///< then why
  std::optional<std::int32_t> step;          ///< none: the one whose time `plan` and `compare` report
  RemedyOptions remedies;
  bool detail = false;
  bool json = false;
  std::string picture = {};          ///< also as SVG into this file; empty: no picture
  bool force = false;                ///< even where it exists
  const Workload* of_run = nullptr;  ///< the run's, remedies or not; null: it has none
};

/// Writes the report.
[[nodiscard]] Result<int> explain_time_of(const ExplainedTime& wanted, Console& console);

}  // namespace foreshard::cli
