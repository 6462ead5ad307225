// What would keep reserved memory from growing, or the process alive: each change is simulated on the same lengths, of
// the seed that fares worst first, and where it helps there of all seeds.
//
// Who: cli's forecast. Deterministic for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/python_lines.hpp"
#include "core/settings/settings.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/seeds_outcome.hpp"
#include "sim/forecast/settings_changes.hpp"

namespace foreshard::sim {

/// What a change costs beside memory: the cheaper kind first.
enum class RemedyPrice : std::uint8_t {
  none = 0,       ///< the same program: the allocator's configuration, padding, empty_cache()
  program = 1,    ///< other settings, as checkpointing: a step may take longer
  offloaded = 2,  ///< the optimizer runs on the CPU
  batch = 3,      ///< a step has fewer samples
};

struct ForecastRemedy {
  /// Options of forecast, all that was simulated: "--alloc-conf expandable_segments:True", and of a run that is padded
  /// already "--alloc-conf expandable_segments:True --pad 64".
  std::string setting;
  std::string reason;       ///< what it changes, one sentence
  std::string pytorch;      ///< the lines of Python and of the environment that set all of it
  SeedForecast outcome;     ///< of the seed that fares worst without it
  SeedsOutcome over_all;    ///< of all seeds; where `alone` of that one
  bool alone = false;       ///< simulated on that seed alone: kSeedsForAll
  std::int64_t saving = 0;  ///< of the largest reserved, against the same seeds without it; bytes
  double more_tokens =
      0;  ///< relative: what padding adds to the tokens of all steps; negative: a smaller batch has less
  RemedyPrice price = RemedyPrice::none;
  /// What a step takes more than without it, as planned in the mean of the run's lengths, of a smaller batch as many
  /// samples as a step has without it; none: not known, or not asked for.
  std::optional<double> step_ms_more = {};
  /// Of all steps: what the driver's calls take less than without it, once segments go back
  /// (SeedForecast::driver_time).
  double saved_ms = 0;
  /// Of all steps: what it costs (0 where the step gets shorter) less `saved_ms`. Of unknown costs the latter alone.
  double net_ms = 0;
  /// Steps that a seed lives longer, of those that run out of memory first; 0: none did, or as long.
  std::size_t steps_more = 0;
  std::int64_t retries_less = 0;  ///< of the seed with the most
};

/// Of more seeds the changes that help most are simulated on all of them, until so many are found that no seed dies
/// with; the others stay simulated on one seed: each takes as long as the forecast itself.
inline constexpr std::size_t kSeedsForAll = 16;
inline constexpr std::size_t kRemediesForMany = 4;

/// Of a run of more lengths than that, each of whose programs takes as long as thirty steps, changes are tried on the
/// first steps of the seed that fares worst: as many as these, and twice those until it is in trouble. Then those that
/// help most run whole, until so many are found that no seed dies with (of a run that lives: none retries), and no more
/// than kWholeForLengths.
inline constexpr std::size_t kManyLengths = 256;
inline constexpr std::size_t kTriedSteps = 128;
inline constexpr std::size_t kRemediesForLengths = 2;
inline constexpr std::size_t kWholeForLengths = 3;

struct ForecastRemedies {
  std::uint64_t seed = 0;    ///< that fares worst, whose lengths all were simulated on
  SeedsOutcome before;       ///< of all seeds
  SeedsOutcome before_seed;  ///< of `seed`, for `steps_tried`
  /// Of `seed`, on which changes were tried first; those that are `alone` ran no more. All, unless it has many lengths.
  std::size_t steps_tried = 0;
  /// Those on all seeds first. Of these: with which the fewest seeds run out of memory, then those that live longest, a
  /// smaller batch behind the rest of them; then those whose time is known, and the least net_ms; then by price, the
  /// fewest steps that give segments back, then (of RemedyPrice::none) the fewest cudaFree and cudaMalloc calls where
  /// segments go back (SeedForecast::churn), then the smallest; others in the order of settings_changes(). Each helps()
  /// on the seeds that it was simulated on, and on `seed`. Of smaller batches only the largest that lives longest.
  std::vector<ForecastRemedy> useful;
  std::vector<ForecastRemedy> too_dear;  ///< of one that retries and lives: they cost more time than they save
  std::size_t tried = 0;
  std::size_t useless = 0;              ///< ran, and are in neither list
  std::vector<std::string> impossible;  ///< "--option: why it could not be simulated"
  std::vector<std::string> doubts;      ///< ProgramSource::doubts() of lengths that remedies alone have
};

struct ForecastRemedyRequest {
  ForecastRequest forecast;     ///< all its seeds
  Settings settings;            ///< what it was made at: alloc_conf and PyTorch version
  std::uint32_t pad = 1;        ///< what its lengths are padded to already; paddings that are no multiple are not tried
  SimMemoryOptions memory;      ///< as another allocator configuration finds it: no recorded addresses
  ModuleNames modules = {};     ///< of the program, for its lines of Python
  ForecastAt at_settings = {};  ///< other settings are tried where the worst dies or retries; null: they are not
  /// The planned step at other settings, of samples of one length; none: it has no time. Null: no costs are known.
  std::function<std::optional<double>(const Settings&, std::uint32_t length)> step_ms = {};
  bool step_follows_length = true;  ///< false: a recording's own steps are planned, whatever the length
  std::function<void(std::size_t done, std::size_t all)> on_progress = {};
};

/// `seeds`: what run_forecast() said of `request.forecast`, at least one. Fails where the configuration of `settings`
/// does.
[[nodiscard]] Result<ForecastRemedies> find_forecast_remedies(ProgramSource& programs,
                                                              const ForecastRemedyRequest& request,
                                                              const std::vector<SeedForecast>& seeds);

/// `own` with `added`'s entries, which take the place of those of the same name: "a:1,b:[4:1,>:2]" and "a:2" give
/// "b:[4:1,>:2],a:2". For PYTORCH_ALLOC_CONF.
[[nodiscard]] std::string joined_alloc_conf(std::string_view own, std::string_view added);

}  // namespace foreshard::sim
