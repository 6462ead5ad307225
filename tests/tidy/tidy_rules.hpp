// The house rules that a program can check, as functions from one source file to findings.
//
// Used by tidy_test.cpp (the whole tree) and rules_test.cpp (each rule fires on a small example). Rules about several
// files at once are in folder_graph.hpp, words in banned_words.hpp.
#pragma once

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

/// A room includes only rooms to its left: core <- sim, gpu <- traces <- accuracy, viz <- cli.
[[nodiscard]] Findings include_direction(const SourceFile& file);
/// core has no files, clocks, threads, environment, printing or leaving (check.cpp reports our own bugs).
[[nodiscard]] Findings core_is_pure(const SourceFile& file);
/// No room but cli, and no test, ends the process or prints; errors are results.
[[nodiscard]] Findings libraries_do_not_print(const SourceFile& file);
/// At most 800 lines a file, 120 columns a line, 70 lines a function of the product.
[[nodiscard]] Findings sizes(const SourceFile& file);
/// Paths say a concept: no utils, common, helpers, misc.
[[nodiscard]] Findings path_names(const SourceFile& file);
/// No left-over notes: the three words that mark unfinished work.
[[nodiscard]] Findings leftovers(const SourceFile& file);
/// A header says what it is in its first line, and has #pragma once.
[[nodiscard]] Findings header_form(const SourceFile& file);
/// Ranged for over a variable that `file` or `header` (its own, may be null) declares unordered.
[[nodiscard]] Findings unordered_iteration(const SourceFile& file, const SourceFile* header);

}  // namespace foreshard::tidy
