// Why a search ends with what was asked for, or with nothing: what the step is bound by, or how much memory is short.
//
// Who: tune_report. Pure text; equal results give equal bytes.
#pragma once

#include <optional>
#include <string>

#include "cli/reports/plan_tables.hpp"
#include "cli/reports/tune_report.hpp"

namespace foreshard::cli {

/// Of a best that is the start, where others were tried: "the compute stream alone fills 99.3 % of the step, and there
/// are no collectives". Of no best, where something runs with enough memory: "memory is 1.2 GiB short: the least
/// that was found takes 1.26 GiB (512 MiB of it parameters), with --offload". Empty: something helps, or it is not
/// known.
[[nodiscard]] std::string reason_of(const TuneReport& report);

/// How much more than may be reserved TuneResult::least takes, where there is one; bytes.
[[nodiscard]] Bytes short_of_least(const TuneReport& report);

/// Whether TuneResult::least fits, and no point that does has a time.
[[nodiscard]] bool only_without_time(const TuneReport& report);

/// Options that the start has not; empty: it is what was asked for.
[[nodiscard]] std::string changes_of_least(const TuneReport& report);

/// A setting's text for a person: of what is said unit by unit, how many units.
[[nodiscard]] std::string short_changes(const std::string& options);

/// Which of the three that a step cannot be shorter than is longest.
struct LongestFloor {
  double ms = 0;
  const char* what = "";  ///< "the compute stream"
};
[[nodiscard]] LongestFloor longest_floor(const sim::StepFloor& floor);

}  // namespace foreshard::cli
