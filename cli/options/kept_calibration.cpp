#include "cli/options/kept_calibration.hpp"

#include <nlohmann/json.hpp>

#include "cli/options/source_options.hpp"
#include "cli/terminal/build_id.hpp"
#include "core/base/digest.hpp"
#include "core/base/json_io.hpp"
#include "sim/machine/profile.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One list for both directions: `io(key, field)`.
template <class Io, class Scale>
void fields(Io&& io, Scale& scale) {
  io("factor", scale.factor);
  io("recorded_factor", scale.recorded_factor);
  io("anchor", scale.anchor);
  io("late_rank", scale.late_rank);
  io("host_bound", scale.host_bound);
  io("measured_ms", scale.measured_ms);
  io("simulated_ms", scale.simulated_ms);
  io("spread", scale.spread);
}

/// What `text` says of the workload of `digest` on a built-in machine.
std::optional<sim::HostScale> of_workload(std::string_view text, const std::string& digest,
                                          const std::string& machine) {
  if (is_profile_file(machine)) return std::nullopt;
  const auto kept = read_calibration(text, build_id(), machine);
  return kept && kept->workload_digest == digest ? std::optional(kept->host_scale) : std::nullopt;
}

}  // namespace

std::string calibration_text(const KeptCalibration& kept, const std::string& program, const std::string& machine) {
  Json json{{"program", program},
            {"machine", machine},
            {"workload", kept.workload_digest},
            {"source", static_cast<unsigned>(kept.host_scale.source)}};
  fields([&](const char* key, const auto& field) { json[key] = field; }, kept.host_scale);
  return json_text(json);
}

std::optional<KeptCalibration> read_calibration(std::string_view text, const std::string& program,
                                                const std::string& machine) {
  const Json json = parse_ordered_json_text(text);
  if (program.empty() || !json.is_object() || json.value("program", Json()) != program ||
      json.value("machine", Json()) != machine)
    return std::nullopt;
  KeptCalibration out;
  bool whole = true;
  const auto read = [&](const char* key, auto& field) {
    const auto found = json.find(key);
    using Field = std::remove_reference_t<decltype(field)>;
    const bool fits = found != json.end() && (std::is_same_v<Field, bool>          ? found->is_boolean()
                                              : std::is_same_v<Field, std::string> ? found->is_string()
                                                                                   : found->is_number());
    if (fits)
      field = found->template get<Field>();
    else
      whole = false;
  };
  read("workload", out.workload_digest);
  unsigned source = 0;
  read("source", source);
  if (source > static_cast<unsigned>(sim::HostScale::Source::steady)) return std::nullopt;
  out.host_scale.source = static_cast<sim::HostScale::Source>(source);
  fields(read, out.host_scale);
  return whole ? std::optional(std::move(out)) : std::nullopt;
}

void take_calibration(const std::string& machine, traces::Source& source) {
  if (!source.calibration.empty()) source.host_scale = of_workload(source.calibration, source.stored_digest, machine);
}

std::optional<sim::HostScale> kept_host_scale(const std::string& machine, const Run& run) {
  const auto text = run.results.find(std::string(kCalibrationResult));
  return text == run.results.end() ? std::nullopt : of_workload(text->second, digest_of(run.workload_json), machine);
}

void keep_calibration(Run& run) {
  const std::string program = build_id();
  const std::string machine = machine_named({}, run.info.machine);
  if (program.empty() || run.workload_json.empty() || is_profile_file(machine)) return;
  const auto profile = sim::builtin_profile(machine);
  // What a plan reads, which is what the store says, not what it was written from.
  const auto workload = traces::stored_workload(run.workload_json, false, run.info.name);
  if (!profile || !workload || !workload->has_timing) return;
  const auto scale = sim::find_host_scale(*workload, *profile);
  const std::string digest = digest_of(run.workload_json);
  if (!scale || digest != digest_of(traces::to_json(*workload))) return;
  run.results[std::string(kCalibrationResult)] = calibration_text({*scale, digest}, program, machine);
}

}  // namespace foreshard::cli
