// The first line of a forecast.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/reports/forecast_report.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

using sim::SeedForecast;

std::size_t count_if(const ForecastReport& report, bool (*holds)(const SeedForecast&)) {
  return static_cast<std::size_t>(std::count_if(report.seeds.begin(), report.seeds.end(), holds));
}

/// "p = 3/4", of several seeds; else nothing.
std::string share(std::size_t count, const ForecastReport& report) {
  return report.seeds.size() < 2 ? std::string() : fmt::format(" (p = {}/{} seeds)", count, report.seeds.size());
}

bool retries(const SeedForecast& seed) {
  return seed.first_retry().has_value();
}
bool fails(const SeedForecast& seed) {
  return seed.out_of_memory.has_value();
}

/// `before_failure`: of those that are not the step that fails itself.
std::string first_retry(const ForecastReport& report, bool before_failure = false) {
  const SeedForecast* first = nullptr;
  for (const SeedForecast& seed : report.seeds) {
    if (!retries(seed)) continue;
    const bool fails_at_once = fails(seed) && *seed.first_retry() == seed.out_of_memory->step;
    if (before_failure && fails_at_once) continue;
    if (first == nullptr || *seed.first_retry() < *first->first_retry()) first = &seed;
  }
  if (first == nullptr) return {};
  return fmt::format("first retry at step {}{}", *first->first_retry(), share(count_if(report, retries), report));
}

std::string failure(const ForecastReport& report) {
  const SeedForecast* first = nullptr;
  for (const SeedForecast& seed : report.seeds)
    if (fails(seed) && (first == nullptr || seed.out_of_memory->step < first->out_of_memory->step)) first = &seed;
  if (first == nullptr) return {};
  return fmt::format("out of memory at step {}{}", first->out_of_memory->step, share(count_if(report, fails), report));
}

/// A tenth of the steps without growth is taken as its end.
std::string growth(const ForecastReport& report) {
  constexpr std::size_t kQuiet = 10;
  std::size_t last = 0;
  Bytes least = UINT64_MAX;
  Bytes most = 0;
  bool any = false;
  for (const SeedForecast& seed : report.seeds) {
    last = std::max(last, seed.last_growth().value_or(0));
    any = any || seed.last_growth();
    least = std::min(least, seed.peak_reserved());
    most = std::max(most, seed.peak_reserved());
  }
  const std::string at = format_bytes(least) == format_bytes(most) || report.seeds.size() < 2
                             ? format_bytes(most)
                             : fmt::format("{} ({} to {} over {} seeds)", format_bytes(most), format_bytes(least),
                                           format_bytes(most), report.seeds.size());
  if (!any) return fmt::format("reserved does not grow, at {}", at);
  if (last + report.steps / kQuiet >= report.steps && report.steps > 1)
    return fmt::format("reserved still grew at step {} of {}, to {}", last, report.steps, at);
  return fmt::format("reserved stops growing after step {} at {}", last, at);
}

}  // namespace

bool runs_out_of_memory(const ForecastReport& report) {
  return count_if(report, fails) > 0;
}

Bytes peak_of_share(const ForecastReport& report, double share) {
  std::vector<Bytes> peaks;
  for (const SeedForecast& seed : report.seeds) peaks.push_back(seed.peak_reserved());
  std::sort(peaks.begin(), peaks.end());
  const double rank = std::ceil(share * static_cast<double>(peaks.size()));
  return peaks[static_cast<std::size_t>(std::clamp(rank, 1.0, static_cast<double>(peaks.size()))) - 1];
}

std::string forecast_answer(const ForecastReport& report) {
  const std::string within = format_bytes(report.capacity);
  if (count_if(report, fails) > 0) {
    const std::string retry = first_retry(report, true);
    return (retry.empty() ? std::string() : retry + ", ") + failure(report) + " under " + within;
  }
  if (count_if(report, retries) > 0) {
    std::int64_t most = 0;
    for (const SeedForecast& seed : report.seeds) most = std::max(most, seed.num_alloc_retries());
    return fmt::format("{}, {} retries in {} steps, no step out of memory; fits {} only so", first_retry(report), most,
                       report.steps, within);
  }
  return growth(report) + "; fits " + within;
}

}  // namespace foreshard::cli
