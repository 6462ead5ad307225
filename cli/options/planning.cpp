#include "cli/options/planning.hpp"

#include "core/settings/settings_table.hpp"

namespace foreshard::cli {

Result<Planned> read_planned(const SourceOptions& from, const ChoiceOptions& choices, Console& console) {
  auto source = traces::read_source(from.source);
  if (!source) return tl::unexpected(source.error());
  for (const std::string& note : source->notes) console.note(note);
  const auto settings = choices.apply(source->settings);
  if (!settings) return tl::unexpected(settings.error());
  const auto machine = machine_for(from, *source, console);
  if (!machine) return tl::unexpected(machine.error());
  const auto workload = traces::workloads_of(*source, *machine)->at(*settings);
  if (!workload) return tl::unexpected(workload.error());
  return Planned{std::move(*source), *settings, *machine, *workload};
}

Result<sim::Prediction> predict_planned(const Planned& planned, std::optional<Bytes> memory_limit,
                                        const std::string& name) {
  auto p = sim::predict(*planned.workload, planned.machine, {planned.settings, memory_limit});
  if (!p) return p;
  if (!name.empty()) p->run.info.name = name;
  // What the source and the settings themselves make less certain.
  const traces::Source& source = planned.source;
  p->valid &= source.warnings.empty();
  p->warnings.insert(p->warnings.begin(), source.warnings.begin(), source.warnings.end());
  for (const std::string& warning : warnings(planned.settings)) p->warnings.push_back(warning);
  p->run.info.valid = p->valid;
  p->run.info.warnings = p->warnings;
  return p;
}

}  // namespace foreshard::cli
