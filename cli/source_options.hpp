// SOURCE and --machine, as plan and sweep share them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/base/error.hpp"
#include "sim/machine/profile.hpp"
#include "traces/source/source.hpp"

namespace foreshard::cli {

struct SourceOptions {
  traces::SourceRequest source;
  std::string machine = "h200";

  /// `this` must outlive the parsing.
  void add_to(CLI::App& app);
};

/// A built-in profile's name, or a profile file.
[[nodiscard]] Result<sim::MachineProfile> read_machine(const std::string& machine);

}  // namespace foreshard::cli
