#include "sim/forecast/longest_alone.hpp"

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

constexpr std::size_t kSteps = 3;  // the first one, and two that follow one of their length

Result<bool> fits_alone(ProgramSource& programs, const ForecastRequest& request, std::uint32_t length) {
  ForecastRequest alone;
  alone.lengths = Lengths::constant(length);
  alone.steps = kSteps;
  alone.process = request.process;
  const auto ran = run_forecast(programs, alone);
  FORESHARD_TRY(ran);
  return !ran->front().out_of_memory;
}

}  // namespace

Result<LongestAlone> find_longest_alone(ProgramSource& programs, const ForecastRequest& request,
                                        const SeedForecast& failed) {
  FORESHARD_CHECK(failed.out_of_memory && !failed.out_of_memory->before_first, "a step ran out of memory");
  LongestAlone out{failed.seed, failed.out_of_memory->length, false, {}};
  const std::vector<std::uint32_t> lengths = request.lengths.distinct(failed.seed, request.steps);
  std::size_t fit = 0;  // the first so many are taken to
  std::size_t above = lengths.size();
  while (fit < above) {
    const std::size_t middle = fit + (above - fit) / 2;
    const auto fits = fits_alone(programs, request, lengths[middle]);
    FORESHARD_TRY(fits);
    if (*fits)
      fit = middle + 1;
    else
      above = middle;
  }
  if (fit > 0) out.longest = lengths[fit - 1];
  const auto fits = fits_alone(programs, request, out.length);
  FORESHARD_TRY(fits);
  out.fits = *fits;
  return out;
}

}  // namespace foreshard::sim
