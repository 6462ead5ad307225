#include "cli/verbs.hpp"

#include <array>

namespace foreshard::cli {
namespace {

constexpr std::array kVerbs{
    Verb{"compare",
         "Two runs side by side: settings, time and memory, by phase and by category",
         {"compare measured.db plan.db", "compare before.db after.db --json"},
         add_compare},
    Verb{"query",
         "The store, by SQL: its tables and views are in docs/trace_schema.md",
         {"query run.db \"SELECT * FROM step_summary\"",
          "query run.db \"SELECT category, bytes FROM peak_by_category\" --csv"},
         add_query},
};

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

}  // namespace foreshard::cli
