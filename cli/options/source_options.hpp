// SOURCE and --machine, as plan and sweep share them.
#pragma once

#include <optional>
#include <string>

#include "cli/options/option_set.hpp"
#include "cli/options/topology_option.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "sim/machine/profile.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::cli {

struct SourceOptions {
  traces::SourceRequest source;
  std::string machine;   ///< empty: that of a run store, else h200
  std::string fabric;    ///< empty: the machine's (fabric_option.hpp)
  std::string topology;  ///< a file; empty: the machine's links (topology_option.hpp)

  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);
  /// `--lowering`, of verbs that plan.
  void add_lowering_to(OptionSet& set);
};

/// What SOURCE is.
[[nodiscard]] Result<traces::Source> read_source(const SourceOptions& options, const Console& console);

/// What the source itself makes less certain, said of what was predicted of it: a Prediction or a SweepPoint.
template <class Predicted>
void add_source_warnings(const traces::Source& source, Predicted& of) {
  of.valid &= source.warnings.empty();
  of.not_valid.insert(of.not_valid.begin(), source.warnings.begin(), source.warnings.end());
  of.warnings.insert(of.warnings.begin(), source.warnings.begin(), source.warnings.end());
}

/// Whether --machine names a profile file; else it is a built-in profile's name.
[[nodiscard]] bool is_profile_file(std::string_view machine);
/// The profile's JSON.
[[nodiscard]] Result<std::string> profile_text(const std::string& machine);
[[nodiscard]] Result<sim::MachineProfile> read_machine(const std::string& machine);
/// Why the machine of a run is not the one taken, h200; empty where it is built in, or the run names none.
[[nodiscard]] std::string machine_note(const std::string& of_run);
/// Where foreshard's own run is planned from a store that another machine ran: that a store's host work stays its own
/// machine's, so that times are not those of a plan from the model. Else empty.
[[nodiscard]] std::string host_note(const std::string& of_run, Lowering lowering, const sim::MachineProfile& machine);
/// Name or file of the machine that was asked for, else that of a run, else h200.
[[nodiscard]] std::string machine_named(const std::string& asked, const std::string& of_run);
[[nodiscard]] Result<sim::MachineProfile> machine_of(const std::string& asked, const std::string& of_run);
/// The machine that was asked for, else the one that the source's run names, else h200, with the fabric and the
/// topology that go with it. Notes say where the run's is not built in, where the topology differs, and where the
/// run's own topology is left out. `topology`: which one. `source` gets the calibration that import kept for that
/// machine (kept_calibration.hpp).
[[nodiscard]] Result<sim::MachineProfile> machine_for(const SourceOptions& options, traces::Source& source,
                                                      Topology& topology, Console& console);
/// Whether nobody has said which machine that is: a recording that names no GPU with a profile, planned without
/// --machine.
[[nodiscard]] bool machine_assumed(const SourceOptions& options, const traces::Source& source);
/// The --fabric that was asked for, else that of the stored plan on its own machine; empty: the machine's.
[[nodiscard]] std::string fabric_of(const SourceOptions& options, const traces::Source& source);
/// What the caching allocator may take: what was asked for, else, without --machine (`asked_machine`), what a stored
/// plan could (`planned`). None: all that the machine gives. Fails where check_memory_limit() does of what was asked
/// for.
[[nodiscard]] Result<std::optional<Bytes>> memory_limit_of(std::optional<Bytes> asked, std::optional<Bytes> planned,
                                                           const std::string& asked_machine,
                                                           const sim::MachineProfile& machine);

}  // namespace foreshard::cli
