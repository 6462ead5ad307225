// What a step puts on the links of its GPU, as text and JSON.
//
// Who: explain --time, and the page, which draws it. Pure text; equal input gives equal bytes.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/link_load/link_load.hpp"

namespace foreshard::cli {

struct RunLinks {
  LinkLoads loads;
  std::string machine_note =
      {};  ///< why the profile is not that of the run's machine; empty where it is, or was asked for
  std::vector<std::string> notes = {};  ///< unlike_links_notes()
};

/// The key "links" of `explain --time --json` (docs/explain.md): of the step. `whole`: its "load" is the run's, as the
/// page has it.
[[nodiscard]] Json links_json(const RunLinks& links, const TimeExplanation& step, bool whole);

/// A table, one row a link; nothing where no collective moved anything that is known. `step`: "step", "profiled step".
void print_links(std::ostream& out, const RunLinks& links, const TimeExplanation& step, std::string_view step_name);

}  // namespace foreshard::cli
