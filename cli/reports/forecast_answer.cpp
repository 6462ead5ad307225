// The first line of a forecast.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/reports/counted.hpp"
#include "cli/reports/forecast_report.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

using sim::SeedForecast;

std::size_t count_if(const ForecastReport& report, bool (*holds)(const SeedForecast&)) {
  return static_cast<std::size_t>(std::count_if(report.seeds.begin(), report.seeds.end(), holds));
}

bool retries(const SeedForecast& seed) {
  return seed.first_retry().has_value();
}
bool fails(const SeedForecast& seed) {
  return seed.out_of_memory.has_value();
}
bool fails_before_first(const SeedForecast& seed) {
  return fails(seed) && seed.out_of_memory->before_first;
}

template <class T>
T nearest_rank(const std::vector<T>& ascending, double share) {
  const auto all = static_cast<double>(ascending.size());
  return ascending[static_cast<std::size_t>(std::clamp(std::ceil(share * all), 1.0, all)) - 1];
}

/// "3 of 4 seeds retry by step 80 (the earliest at step 17, half of them by step 40)"
std::string seeds_that(const std::string& one, const std::string& several, const StepsOfSeeds& steps,
                       const ForecastReport& report) {
  std::string text = fmt::format("{} of {} seeds {} by step {}", steps.steps.size(), report.seeds.size(),
                                 steps.steps.size() == 1 ? one : several, steps.steps.back());
  if (steps.steps.size() > 1)
    text +=
        fmt::format(" (the earliest at step {}, half of them by step {})", steps.steps.front(), steps.of_share(0.5));
  return text;
}

/// Empty: there are none.
std::string first_retry(const ForecastReport& report) {
  const StepsOfSeeds steps = first_retries(report);
  if (steps.steps.empty()) return {};
  if (report.seeds.size() > 1) return seeds_that("retries", "retry", steps, report);
  return fmt::format("first retry at step {}", steps.steps.front());
}

std::string failure(const ForecastReport& report) {
  if (count_if(report, fails_before_first) > 0) return "out of memory before the first step";
  const StepsOfSeeds steps = failures(report);
  if (report.seeds.size() > 1) return seeds_that("runs out of memory", "run out of memory", steps, report);
  return fmt::format("out of memory at step {}", steps.steps.front());
}

/// ", segments given back in 202 of 300 steps", of the seed that does so most often; nothing where none does.
std::string given_back(const ForecastReport& report) {
  std::size_t most = 0;
  for (const SeedForecast& seed : report.seeds) most = std::max(most, seed.steps_giving_back);
  if (most == 0) return {};
  return fmt::format(", segments given back in {}{} of {} steps", report.seeds.size() > 1 ? "up to " : "", most,
                     report.steps);
}

/// Whether memory was enough follows for these steps; where it still grows, for no more of them. Growth in the last
/// tenth of the steps, and in the last one of few, goes on.
std::string growth(const ForecastReport& report) {
  constexpr std::size_t kQuiet = 10;
  const bool several = report.seeds.size() > 1;
  const auto by_growth = [](const SeedForecast& a, const SeedForecast& b) { return a.last_growth() < b.last_growth(); };
  const auto by_peak = [](const SeedForecast& a, const SeedForecast& b) {
    return a.peak_reserved() < b.peak_reserved();
  };
  const SeedForecast& latest = *std::max_element(report.seeds.begin(), report.seeds.end(), by_growth);
  const auto [least, most] = std::minmax_element(report.seeds.begin(), report.seeds.end(), by_peak);
  const std::string from = format_bytes(least->peak_reserved()), to = format_bytes(most->peak_reserved());
  const std::string at = from == to ? to : fmt::format("{} to {}", from, to);
  const std::string of_seeds = several ? fmt::format(" in any of {} seeds", report.seeds.size()) : std::string();
  const std::string within = format_bytes(report.capacity);
  if (!latest.last_growth()) return fmt::format("reserved does not grow{}, at {}; fits {}", of_seeds, at, within);
  const std::size_t last = *latest.last_growth();
  if (last + std::max<std::size_t>(1, report.steps / kQuiet) < report.steps)
    return fmt::format("reserved has not grown since step {} of {}{}, at {}; fits {}", last, report.steps, of_seeds, at,
                       within);
  if (!several)
    return fmt::format("reserved still grew at step {} of {}, to {}; these steps fit {}", last, report.steps, to,
                       within);
  return fmt::format(
      "reserved still grew at step {} of {} in seed {}, to {} there; {} over {} seeds; these steps fit {}", last,
      report.steps, latest.seed, format_bytes(latest.peak_reserved()), at, report.seeds.size(), within);
}

}  // namespace

bool runs_out_of_memory(const ForecastReport& report) {
  return count_if(report, fails) > 0;
}

Bytes peak_of_share(const ForecastReport& report, double share) {
  std::vector<Bytes> peaks;
  for (const SeedForecast& seed : report.seeds) peaks.push_back(seed.peak_reserved());
  std::sort(peaks.begin(), peaks.end());
  return nearest_rank(peaks, share);
}

std::size_t StepsOfSeeds::of_share(double share) const {
  return nearest_rank(steps, share);
}

StepsOfSeeds first_retries(const ForecastReport& report) {
  StepsOfSeeds out;
  for (const SeedForecast& seed : report.seeds)
    if (const auto first = seed.first_retry()) out.steps.push_back(*first);
  std::sort(out.steps.begin(), out.steps.end());
  return out;
}

StepsOfSeeds failures(const ForecastReport& report) {
  StepsOfSeeds out;
  for (const SeedForecast& seed : report.seeds)
    if (fails(seed)) out.steps.push_back(seed.out_of_memory->step);
  std::sort(out.steps.begin(), out.steps.end());
  return out;
}

std::string forecast_answer(const ForecastReport& report) {
  const std::string within = format_bytes(report.capacity);
  if (count_if(report, fails) > 0) {
    const std::string retry = count_if(report, fails_before_first) > 0 ? std::string() : first_retry(report);
    return (retry.empty() ? std::string() : retry + ", ") + failure(report) + " under " + within;
  }
  if (count_if(report, retries) > 0) {
    std::int64_t most = 0;
    for (const SeedForecast& seed : report.seeds) most = std::max(most, seed.num_alloc_retries());
    return fmt::format("{}, {}{} in {} steps, no step out of memory; fits {} that way{}", first_retry(report),
                       report.seeds.size() > 1 ? "up to " : "", counted(most, "retry", "retries"), report.steps, within,
                       given_back(report));
  }
  return growth(report) + given_back(report);
}

}  // namespace foreshard::cli
