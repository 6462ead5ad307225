// What `import` finds once, so that each plan of the recording need not: the host's scale (sim/predict/host_scale.hpp)
// and the digest of its workload. Kept with the build id of the program that found it: another program finds its own.
//
// Who: cli's import keeps it in a result of the run. plan, sweep and tune take it of their SOURCE by
// take_calibration(); explain, view and compare of the run they show, by kept_host_scale(). What they say with it is
// what they say without it, to the byte. A store that is read --unverified has none (traces/store/open_options.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "sim/predict/host_scale.hpp"
#include "traces/store/open_options.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::cli {

/// Key of Run::results.
inline constexpr std::string_view kCalibrationResult = traces::kKeptCalibration;

struct KeptCalibration {
  sim::HostScale host_scale;
  std::string workload_digest;  ///< digest_of() of the workload's JSON, as it is stored and as it is written anew
};

/// As JSON, for the built-in machine profile of that name.
[[nodiscard]] std::string calibration_text(const KeptCalibration& kept, const std::string& program,
                                           const std::string& machine);
/// None where `text` is none, or another program's or machine's.
[[nodiscard]] std::optional<KeptCalibration> read_calibration(std::string_view text, const std::string& program,
                                                              const std::string& machine);

/// Sets Source::host_scale where what import kept is of `source`'s workload, of this program, and of the built-in
/// profile `machine`, which must be planned as it is, without another fabric or topology.
void take_calibration(const std::string& machine, traces::Source& source);

/// The same of a stored run, of its own workload.
[[nodiscard]] std::optional<sim::HostScale> kept_host_scale(const std::string& machine, const Run& run);

/// Of an imported run, on the machine that its plans take by themselves. Keeps nothing where the run has no workload or
/// no times, its machine is not built in, or this program has no build id; plans find it anew then, or say why not.
void keep_calibration(Run& run);

}  // namespace foreshard::cli
