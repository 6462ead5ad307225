// What would keep reserved memory from growing, or the process alive: each change is simulated on the same lengths.
//
// Who: cli's forecast. Deterministic for any number of threads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/forecast/forecast.hpp"

namespace foreshard::sim {

struct ForecastRemedy {
  std::string setting;  ///< options of forecast: "--alloc-conf expandable_segments:True", "--pad 64"
  std::string reason;   ///< what it changes, one sentence
  std::string pytorch;  ///< the line of Python or of the environment that sets it
  SeedForecast outcome;
  std::int64_t saving = 0;  ///< of the largest reserved, against the same seed without it; bytes
  double more_tokens = 0;   ///< relative: what padding adds to the tokens of all steps
};

struct ForecastRemedies {
  std::uint64_t seed = 0;  ///< whose lengths they were simulated on
  SeedForecast before;
  std::vector<ForecastRemedy> useful;  ///< those that live longest first, then with fewest retries, then the smallest
  std::size_t tried = 0;
  std::size_t useless = 0;              ///< ran, and neither saved memory nor lived longer nor retried less
  std::vector<std::string> impossible;  ///< "--option: why it could not be simulated"
};

struct ForecastRemedyRequest {
  ForecastRequest forecast;  ///< of which `before` is one seed's
  Settings settings;         ///< what it was made at: alloc_conf and PyTorch version
  SeedForecast before;       ///< the seed that fares worst
  SimMemoryOptions memory;   ///< as another allocator configuration finds it: no recorded addresses
  std::function<void(std::size_t done, std::size_t all)> on_progress = {};
};

/// Fails where the configuration of `settings` does.
[[nodiscard]] Result<ForecastRemedies> find_forecast_remedies(ProgramSource& programs,
                                                              const ForecastRemedyRequest& request);

/// The one that fares worst: out of memory first, then the earliest retry, then the most reserved; of equal ones the
/// first.
[[nodiscard]] std::size_t worst_of(const std::vector<SeedForecast>& seeds);

}  // namespace foreshard::sim
