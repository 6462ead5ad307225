#include "cli/options/planning.hpp"

#include <utility>

#include "cli/options/fabric_option.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::cli {

Result<Planned> read_planned(const SourceOptions& from, const SettingOptions& setting_options,
                             std::optional<Bytes> memory_limit, Console& console) {
  auto source = read_source(from, console);
  FORESHARD_TRY(source);
  for (const std::string& note : source->notes) console.note(note);
  const auto settings = setting_options.apply(source->settings);
  FORESHARD_TRY(settings);
  Topology topology;
  const auto machine = machine_for(from, *source, topology, console);
  FORESHARD_TRY(machine);
  FORESHARD_TRY(check_fabric_is_used(from.fabric, settings->nodes));
  std::string fabric = fabric_of(from, *source);
  if (const std::string note = fabric_note(fabric, machine->network, settings->gpus, settings->nodes); !note.empty())
    console.note(note);
  const auto workload = traces::workloads_of(*source, *machine)->at(*settings);
  if (!workload) return tl::unexpected(setting_options.with_file(workload.error()));
  std::string machine_name = machine_named(from.machine, source->machine);
  const auto limit = memory_limit_of(memory_limit, source->memory_capacity, from.machine, *machine);
  FORESHARD_TRY(limit);
  const bool assumed = machine_assumed(from, *source);
  return Planned{std::move(*source),
                 *settings,
                 *machine,
                 std::move(machine_name),
                 std::move(fabric),
                 std::move(topology),
                 *workload,
                 *limit,
                 assumed,
                 {}};
}

Result<sim::Prediction> predict_planned(const Planned& planned, const std::string& name, sim::Differences differences,
                                        std::optional<sim::TrialsRequest> trials,
                                        std::optional<std::uint32_t> kept_ranks,
                                        std::optional<sim::BesideRequest> beside,
                                        std::optional<sim::FlappingRequest> flapping,
                                        std::optional<sim::DrawnLengths> lengths) {
  sim::PredictRequest request{planned.settings, planned.memory_limit};
  if (planned.workload == planned.source.workload) request.host_scale = planned.source.host_scale;
  request.differences = std::move(differences);
  request.threads = sim::hardware_threads();
  request.trials = std::move(trials);
  request.kept_ranks = kept_ranks;
  request.beside = std::move(beside);
  request.flapping = std::move(flapping);
  request.lengths = std::move(lengths);
  auto p = sim::predict(*planned.workload, planned.machine, request);
  if (!p) return p;
  if (!name.empty()) p->run.info.name = name;
  // What the source and the settings themselves make less certain.
  add_source_warnings(planned.source, *p);
  for (const std::string& warning : warnings(planned.settings)) p->warnings.push_back(warning);
  for (const std::string& doubt : planned.topology.doubts) p->warnings.push_back(doubt);
  p->run.info.valid = p->valid;
  p->run.info.warnings = p->warnings;
  return p;
}

}  // namespace foreshard::cli
