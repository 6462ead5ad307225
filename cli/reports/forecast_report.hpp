// How a forecast is told: a report for people, the same as JSON, and memory behind each step as comma-separated values.
//
// Who: cli's forecast. Pure text; equal input gives equal bytes. Steps are counted from 0, as everywhere.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "sim/forecast/forecast_remedies.hpp"

namespace foreshard::cli {

struct ForecastReport {
  std::string source;  ///< as the user gave it
  std::string name;    ///< of the model or the recording
  std::string machine;
  std::string lengths_text;  ///< --lengths
  sim::Lengths lengths;
  std::size_t steps = 0;
  std::optional<Bytes> limit;  ///< --memory-limit
  Bytes capacity = 0;          ///< what the caching allocator may take: the limit, or the machine's memory
  std::vector<sim::SeedForecast> seeds;
  std::optional<sim::ForecastRemedies> remedies;  ///< none: not asked for
  std::vector<std::string> notes;                 ///< how lengths came to their programs
  std::vector<std::string> not_valid;             ///< why it is not: inferences it rests on, and the source's doubts
  std::vector<std::string> warnings;
};

/// Of any seed.
[[nodiscard]] bool runs_out_of_memory(const ForecastReport& report);

/// The answer in one line: when reserved memory stops growing and whether it fits, or when it first gives way.
[[nodiscard]] std::string forecast_answer(const ForecastReport& report);

/// The peak of reserved memory that `share` of the seeds do not exceed: a nearest rank, of bytes.
[[nodiscard]] Bytes peak_of_share(const ForecastReport& report, double share);

void print_forecast(std::ostream& out, const ForecastReport& report);

/// The keys of docs/forecast.md.
[[nodiscard]] Json forecast_json(const ForecastReport& report);

/// seed, step, length, reserved, peak_reserved, peak_allocated (bytes), retries.
[[nodiscard]] std::string forecast_csv(const ForecastReport& report);

}  // namespace foreshard::cli
