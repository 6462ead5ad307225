// The verbs of the command line: one file each, one line each in the table of verbs.cpp.
//
// A verb adds its options to a CLI11 sub-command and returns what to do once they are parsed. It gets
// its results out through the Console and its failures as an Error; front_door.cpp maps both to the exit
// codes of docs/exit_codes.md.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"

namespace CLI {
class App;
}

namespace foreshard::cli {

/// Exit statuses beside those of ErrorKind; stable, listed in docs/exit_codes.md.
enum ExitCode : int {
  kDone = 0,
  kInternalError = 1,
  kDiffers = 13,
  kSkipped = 77,
  kInterrupted = 130,
};

/// Runs after parsing; the exit status of a run that went as it should, kDone mostly.
using Action = std::function<Result<int>(Console&)>;

struct Verb {
  std::string_view name;
  std::string_view summary;      ///< one line, for the list of verbs
  std::string_view examples[2];  ///< command lines without "foreshard "
  Action (*add)(CLI::App& app);  ///< adds options; the Action owns their values
};

/// In the order in which help lists them.
[[nodiscard]] std::span<const Verb> verbs();

Action add_accuracy(CLI::App& app);
Action add_calibrate(CLI::App& app);
Action add_compare(CLI::App& app);
Action add_explain(CLI::App& app);
Action add_export(CLI::App& app);
Action add_import(CLI::App& app);
Action add_machines(CLI::App& app);
Action add_plan(CLI::App& app);
Action add_probe(CLI::App& app);
Action add_query(CLI::App& app);
Action add_replay(CLI::App& app);
Action add_run(CLI::App& app);
Action add_serve(CLI::App& app);
Action add_sweep(CLI::App& app);
Action add_view(CLI::App& app);

}  // namespace foreshard::cli
