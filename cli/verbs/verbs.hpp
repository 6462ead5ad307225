// The verbs of the command line: one file each, one line each in the table of verbs.cpp.
//
// A verb adds its options to an OptionSet and returns what to do once they are parsed. It gets
// its results out through the Console and its failures as an Error; front_door.cpp maps both to the exit
// codes of docs/exit_codes.md.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/terminal/console.hpp"
#include "cli/terminal/exit_code.hpp"
#include "core/base/error.hpp"

namespace foreshard::cli {

class OptionSet;

/// Runs after parsing; the exit status of a run that went as it should, kDone mostly.
using Action = std::function<Result<int>(Console&)>;

struct Verb {
  static constexpr std::size_t kMaxExamples = 4;

  std::string_view name;
  std::string_view summary;                          ///< one line, for the list of verbs
  std::array<std::string_view, kMaxExamples> lines;  ///< command lines without "foreshard ": two at least, then empty
  Action (*add)(OptionSet& set);                     ///< adds options; the Action owns their values

  [[nodiscard]] std::vector<std::string_view> examples() const {
    std::vector<std::string_view> out(lines.begin(), lines.end());
    std::erase(out, std::string_view());
    return out;
  }
};

/// In the order in which help lists them.
[[nodiscard]] std::span<const Verb> verbs();

Action add_accuracy(OptionSet& set);
Action add_calibrate(OptionSet& set);
Action add_collectives(OptionSet& set);
Action add_compare(OptionSet& set);
Action add_explain(OptionSet& set);
Action add_export(OptionSet& set);
Action add_fit(OptionSet& set);
Action add_forecast(OptionSet& set);
Action add_import(OptionSet& set);
Action add_machines(OptionSet& set);
Action add_plan(OptionSet& set);
Action add_probe(OptionSet& set);
Action add_query(OptionSet& set);
Action add_replay(OptionSet& set);
Action add_rules(OptionSet& set);
Action add_run(OptionSet& set);
Action add_serve(OptionSet& set);
Action add_sweep(OptionSet& set);
Action add_tune(OptionSet& set);
Action add_view(OptionSet& set);

}  // namespace foreshard::cli
