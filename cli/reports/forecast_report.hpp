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
#include "sim/forecast/longest_alone.hpp"

namespace foreshard::cli {

struct ForecastReport {
  std::string source;                 ///< as the user gave it
  std::string name;                   ///< of the model or the recording
  std::string model_options;          ///< traces::Source::model_options
  std::vector<std::string> left_out;  ///< traces::left_out() of the source
  bool of_model = false;              ///< which can be planned at any length
  std::string machine;
  std::string lengths_text;  ///< --lengths
  sim::Lengths lengths;
  std::size_t steps = 0;
  std::size_t distinct_lengths = 0;  ///< of all seeds' steps
  std::uint32_t pad = 1;             ///< --pad
  std::uint32_t empty_cache = 0;     ///< --empty-cache; 0: never
  std::string between;               ///< --between; empty: not of a recording
  std::string alloc_conf;            ///< --alloc-conf, or the source's
  std::optional<Bytes> limit;        ///< --memory-limit
  Bytes capacity = 0;                ///< what the caching allocator may take: the limit, or the machine's memory
  std::vector<sim::SeedForecast> seeds;
  std::optional<sim::LongestAlone> alone;         ///< of the seed that fares worst, where a step runs out of memory
  std::optional<sim::ForecastRemedies> remedies;  ///< none: not asked for
  std::vector<std::string> notes;                 ///< how lengths came to their programs
  std::vector<std::string> not_valid;             ///< why it is not: inferences it rests on, and the source's doubts
  std::vector<std::string> warnings;
};

/// Of any seed.
[[nodiscard]] bool runs_out_of_memory(const ForecastReport& report);

/// The answer in one line: since when reserved memory has not grown and whether it fits, or when it first gives way.
[[nodiscard]] std::string forecast_answer(const ForecastReport& report);

/// The peak of reserved memory that `share` of the seeds do not exceed: a nearest rank, of bytes.
[[nodiscard]] Bytes peak_of_share(const ForecastReport& report, double share);

/// When seeds retry or run out of memory: of those that do, in order of the step.
struct StepsOfSeeds {
  std::vector<std::size_t> steps;  ///< ascending
  /// Nearest rank. Requires: not empty.
  [[nodiscard]] std::size_t of_share(double share) const;
};
[[nodiscard]] StepsOfSeeds first_retries(const ForecastReport& report);
[[nodiscard]] StepsOfSeeds failures(const ForecastReport& report);

void print_forecast(std::ostream& out, const ForecastReport& report);

/// The keys of docs/forecast.md.
[[nodiscard]] Json forecast_json(const ForecastReport& report);

/// seed, step, length, reserved, peak_reserved, peak_allocated (bytes), retries, out_of_memory: 1 of a seed's last row,
/// where its process ended in that step, else 0.
[[nodiscard]] std::string forecast_csv(const ForecastReport& report);

}  // namespace foreshard::cli
