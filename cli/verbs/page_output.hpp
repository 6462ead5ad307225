// The interactive page of one run, or of two beside each other, as a file.
//
// Used by view, compare and serve. What the page says about causes and differences is what `explain --json` and
// `compare --json` say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// What a run's page says beside the run's records, as pieces of these names: run_answer_json(), the ranks of
/// `explain --json`, what that says about the run, and the pictures of what a search or a forecast stored.
[[nodiscard]] std::vector<std::string> page_extras();
/// Those of each run of a comparison's page: run_answer_json(), and what `explain --time --json` says without remedies
/// ("waits").
[[nodiscard]] std::vector<std::string> compared_page_extras();

struct ExtraOptions {
  std::optional<std::int32_t> step = {};  ///< that memory is explained at; none: the last
  /// Remedies are simulated on it, as explain has it (empty: the run's, else h200); none: not at all.
  std::optional<std::string> machine = std::string();
};

/// One of page_extras() or compared_page_extras(): null where the run has nothing to say of it. `name`: of the run, as
/// the user gave it.
[[nodiscard]] Json page_extra(std::string_view extra, const Run& run, const std::string& name,
                              const ExtraOptions& options, Console& console);

/// A point of a search whose steps the page shows when its mark is clicked.
struct FrontPage {
  std::size_t point = 0;
  Run run;
};

/// One run, named as the user named it, and the points of its front that were kept. Errors: those of viz::Pack::make()
/// and of writing.
[[nodiscard]] Result<void> write_run_page(const Run& run, const std::string& name, const std::vector<FrontPage>& front,
                                          const viz::PackOptions& options, const ExtraOptions& extras,
                                          const PageFile& file, Console& console);

/// Two runs, named as the user named them. `comparison`: of compare --json.
[[nodiscard]] Result<void> write_comparison_page(const Run& a, const std::string& a_name, const Run& b,
                                                 const std::string& b_name, const Json& comparison,
                                                 const PageFile& file, Console& console);

}  // namespace foreshard::cli
