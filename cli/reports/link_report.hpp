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

/// A link that is slower than the others of its job, of another rank than the one that is shown.
struct SlowLinkLoad {
  std::string name;  ///< "adapter 1.3"
  std::uint32_t rank = 0;
  LinkLoad load;
};

struct RunLinks {
  LinkLoads loads;
  std::vector<std::string> notes = {};  ///< unlike_links_notes()
  std::vector<SlowLinkLoad> slow = {};  ///< as the job was planned with
};

/// The key "links" of `explain --time --json` (docs/explain.md): of the step. `whole`: its "load" is the run's, as the
/// page has it.
[[nodiscard]] Json links_json(const RunLinks& links, const TimeExplanation& step, bool whole);

/// A table, one row a link; nothing where no collective moved anything that is known. `step`: "step", "profiled step".
void print_links(std::ostream& out, const RunLinks& links, const TimeExplanation& step, std::string_view step_name);

}  // namespace foreshard::cli
