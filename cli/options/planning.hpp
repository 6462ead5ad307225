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
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

/// A source at the settings that were asked for, on a machine.
struct Planned {
  traces::Source source;
  Settings settings;
  sim::MachineProfile machine;
  std::string machine_name;                  ///< a built-in profile's, or its file's
  std::string fabric;                        ///< --fabric; empty: the machine's
  std::shared_ptr<const Workload> workload;  ///< as the source has it; predict() and adapt() fit it to `settings`
};

/// Reads source, options and machine; notes go to the console.
[[nodiscard]] Result<Planned> read_planned(const SourceOptions& source, const SettingOptions& setting_options,
                                           Console& console);

/// The prediction with every warning that source, settings and machine give. `name`: of its run; empty: the workload's.
/// `differences`: what is unlike the rest of the job; `trials`: what chance does to it.
[[nodiscard]] Result<sim::Prediction> predict_planned(const Planned& planned, std::optional<Bytes> memory_limit,
                                                      const std::string& name, sim::Differences differences = {},
                                                      std::optional<sim::TrialsRequest> trials = {});

}  // namespace foreshard::cli
