#include "traces/import/training_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces {
namespace {

constexpr Bytes kLimit = 256 * kMiB;
constexpr std::size_t kMaxFound = 16;

Result<std::vector<LoggedStep>> read_log(const std::string& path) {
  auto source = ByteSource::open(path);
  FORESHARD_TRY(source);
  const auto text = read_all(*source, kLimit);
  FORESHARD_TRY(text);
  return logged_steps(*text);
}

tl::unexpected<Error> no_times(const std::string& path, const std::vector<LoggedStep>& steps) {
  if (steps.size() == 1)
    return fail(ErrorKind::input, "has one line of step times, the first, whose step is no usual one", path);
  if (!steps.empty())
    return fail(ErrorKind::input, "has tokens a second, but the tokens of a step are not known", path,
                "give batch and seq in an about file");
  return fail(ErrorKind::input, "has no line with a step's tokens a second (tps) or end_to_end(s)", path,
              "torchtitan's lines are read: step: 10  loss: …  tps: 5,762  …");
}

}  // namespace

std::optional<TitanConfig> found_config(const std::string& path, std::vector<ImportStat>& stats) {
  const auto config = read_titan_config(path);
  if (config && *config) {
    stats.push_back({"settings_of_config", ImportStat::Severity::info, (*config)->about.given.size(),
                     fmt::format("settings are of {}: {}", path, fmt::join((*config)->about.given, ", "))});
    return *config;
  }
  stats.push_back({"config_not_read", ImportStat::Severity::info, 1,
                   config ? fmt::format("{} is not torchtitan's", path) : config.error().text()});
  return std::nullopt;
}

LogUnits log_units(const Settings& settings, bool recorded, const std::optional<TitanConfig>& config) {
  LogUnits units;
  const bool steps_known = recorded || !config || !config->accumulates;
  if (settings.batch && settings.seq && steps_known)
    units.tokens = static_cast<double>(*settings.batch) * *settings.seq * settings.accumulate /
                   (config ? config->batch_ranks : settings.tensor_parallel);
  if (config) {
    units.profile_freq = config->profile_freq;
    units.profiled_steps = config->profiled_steps;
  }
  return units;
}

Result<std::optional<Measured>> logged_times(const TrainingLogs& logs, const LogUnits& units,
                                             std::vector<ImportStat>& stats) {
  for (std::size_t i = 0; i < std::min(logs.paths.size(), kMaxFound); ++i) {
    const std::string& path = logs.paths[i];
    const auto steps = read_log(path);
    if (!steps && logs.given) return tl::unexpected(steps.error());
    const auto times = steps ? times_of(*steps, units) : std::nullopt;
    if (!times && logs.given) return no_times(path, *steps);
    if (!times) continue;
    Measured measured;
    // A log leaves its first line out itself: in the places of the warm-up stands the second once more.
    measured.step_ms.assign(Measured::kWarmUp, times->step_ms.front());
    measured.step_ms.insert(measured.step_ms.end(), times->step_ms.begin(), times->step_ms.end());
    stats.push_back({"step_times_of_log", ImportStat::Severity::info, times->step_ms.size(),
                     fmt::format("the step times are those of {}: {}", path, times->from)});
    return std::optional(std::move(measured));
  }
  return std::optional<Measured>();
}

}  // namespace foreshard::traces
