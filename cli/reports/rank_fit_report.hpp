// What makes a recording's ranks differ, as text and JSON, and the options that plan it.
//
// Who: cli/verbs/fit.cpp. Pure but for the stream that it prints to.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/straggler/rank_fit.hpp"

namespace foreshard::cli {

/// One line or more, without an end of line: which rank's GPU or host differs and which group's links, by how much, and
/// how sure that is; or that none does.
[[nodiscard]] std::vector<std::string> rank_fit_answer(const RanksFit& fit);

/// The answer, the options, and a table of all ranks.
void print_rank_fit(std::ostream& out, const RanksFit& fit);

/// Without `schema` and `verb`.
[[nodiscard]] Json rank_fit_json(const RanksFit& fit);

/// "--slow-gpu 5=1.2 --slow-host 3=1.5", over what a plan of the run has (told_ranks.hpp); empty: it has them all.
[[nodiscard]] std::string rank_fit_options(const RanksFit& fit);

}  // namespace foreshard::cli
