// What makes a recording's ranks differ, as text and JSON, and the options that plan it.
//
// Who: cli/verbs/fit.cpp. Pure but for the stream that it prints to.
#pragma once

#include <ostream>
#include <string>

#include "cli/terminal/output.hpp"
#include "core/straggler/rank_fit.hpp"

namespace foreshard::cli {

/// One or more lines, the answer first: which ranks are unlike the others, and how.
void print_rank_fit(std::ostream& out, const RanksFit& fit);

/// Without `schema` and `verb`.
[[nodiscard]] Json rank_fit_json(const RanksFit& fit);

/// "--slow-gpu 5=1.2 --slow-host 3=1.5"; empty: no rank differs in a way that plan has an option for.
[[nodiscard]] std::string rank_fit_options(const RanksFit& fit);

}  // namespace foreshard::cli
