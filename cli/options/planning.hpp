// From what was typed to a workload and its prediction: the way that plan and run share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/setting_options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

/// A source at the settings that were asked for, on a machine.
struct Planned {
  traces::Source source;
  Settings settings;
  sim::MachineProfile machine;
  std::string machine_name;                  ///< a built-in profile's, or its file's
  std::string fabric;                        ///< fabric_of()
  Topology topology;                         ///< that is on `machine`
  std::shared_ptr<const Workload> workload;  ///< as the source has it; predict() and adapt() fit it to `settings`
  std::optional<Bytes> memory_limit = {};    ///< memory_limit_of()
  bool machine_assumed = false;              ///< machine_assumed()
  JobOptions job_options = {};               ///< what the verb has of them; a stored plan's are not taken over
};

/// Reads source, options and machine; notes go to the console. `memory_limit`: as it was asked for.
[[nodiscard]] Result<Planned> read_planned(const SourceOptions& source, const SettingOptions& setting_options,
                                           std::optional<Bytes> memory_limit, Console& console);

/// The prediction with every warning that source, settings and machine give. `name`: of its run; empty: the workload's.
/// `differences`: what is unlike the rest of the job; `trials`: what chance does to it; `kept_ranks`, `beside`,
/// `flapping` and `lengths`: as PredictRequest's.
[[nodiscard]] Result<sim::Prediction> predict_planned(const Planned& planned, const std::string& name,
                                                      sim::Differences differences = {},
                                                      std::optional<sim::TrialsRequest> trials = {},
                                                      std::optional<std::uint32_t> kept_ranks = {},
                                                      std::optional<sim::BesideRequest> beside = {},
                                                      std::optional<sim::FlappingRequest> flapping = {},
                                                      std::optional<sim::DrawnLengths> lengths = {});

}  // namespace foreshard::cli
