// What makes a recording's ranks differ, as text and JSON, and the options that plan it.
//
// Who: cli/verbs/fit.cpp. Pure but for the stream that it prints to.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/straggler/rank_fit.hpp"
#include "sim/link_load/link_fit.hpp"

namespace foreshard::cli {

struct RankFitReport {
  RanksFit fit;
  std::optional<sim::LinkFit> links = {};  ///< none: the run's machine has no profile
  std::string machine = {};                ///< whose that is
};

/// One line or more, without an end of line: which rank's GPU or host differs and which group's links, by how much, and
/// how sure that is; or that none does.
[[nodiscard]] std::vector<std::string> rank_fit_answer(const RankFitReport& report);

/// The answer, the options, and a table of all ranks.
void print_rank_fit(std::ostream& out, const RankFitReport& report);

/// Without `schema` and `verb`.
[[nodiscard]] Json rank_fit_json(const RankFitReport& report);

/// "--slow-gpu 5=1.2 --slow-link 3=1.5", over what a plan of the run has (told_ranks.hpp); empty: it has them all.
[[nodiscard]] std::string rank_fit_options(const RankFitReport& report);

}  // namespace foreshard::cli
