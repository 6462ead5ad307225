// The interactive page of one run, or of two beside each other, as a file.
//
// Used by view and compare. What the page says about causes and differences is what `explain --json` and
// `compare --json` say.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal/console.hpp"
#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "viz/pack/pack.hpp"

namespace foreshard::cli {

struct PageFile {
  std::string path;
  std::string theme = "auto";
  bool force = false;
};

/// What `explain --json` says about a run at `step` (none: the last); null where the run has no memory to explain, or
/// not that step. Remedies are simulated on
/// `machine`, as explain has it (empty: the run's, else h200); none: not at all.
[[nodiscard]] Json page_explanation(const Run& run, const std::string& name, std::optional<std::int32_t> step,
                                    const std::optional<std::string>& machine, Console& console);

/// One run. `explanation`: page_explanation(). Errors: those of viz::Pack::make() and of writing.
[[nodiscard]] Result<void> write_run_page(const Run& run, const viz::PackOptions& options, const Json& explanation,
                                          const PageFile& file);

/// Two runs, named as the user named them. `comparison`: of compare --json.
[[nodiscard]] Result<void> write_comparison_page(const Run& a, const std::string& a_name, const Run& b,
                                                 const std::string& b_name, const Json& comparison,
                                                 const PageFile& file);

}  // namespace foreshard::cli
