#include "sim/forecast/longest_alone.hpp"

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

Result<SeedForecast> run_alone(ProgramSource& programs, const ForecastRequest& request, std::uint32_t length,
                               std::size_t steps) {
  ForecastRequest alone;
  alone.lengths = Lengths::constant(length);
  alone.steps = steps;
  alone.process = request.process;
  auto ran = run_forecast(programs, alone);
  FORESHARD_TRY(ran);
  return std::move(ran->front());
}

}  // namespace

Result<LongestAlone> find_longest_alone(ProgramSource& programs, const ForecastRequest& request,
                                        const SeedForecast& failed) {
  FORESHARD_CHECK(failed.out_of_memory && !failed.out_of_memory->before_first, "a step ran out of memory");
  LongestAlone out;
  out.seed = failed.seed;
  out.length = failed.out_of_memory->length;
  out.steps = std::max(kLeastStepsAlone, failed.out_of_memory->step + 1);
  const auto own = run_alone(programs, request, out.length, out.steps);
  FORESHARD_TRY(own);
  out.fits = !own->out_of_memory;
  out.num_alloc_retries = own->num_alloc_retries();
  const std::vector<std::uint32_t> lengths = request.lengths.distinct(failed.seed, request.steps);
  // What fits, or does not, decides for those on its other side.
  const auto place = static_cast<std::size_t>(std::ranges::lower_bound(lengths, out.length) - lengths.begin());
  std::size_t fit = out.fits ? place + 1 : 0;  // the first so many are taken to
  std::size_t above = out.fits ? lengths.size() : place;
  while (fit < above) {
    const std::size_t middle = fit + (above - fit) / 2;
    const auto ran = run_alone(programs, request, lengths[middle], out.steps);
    FORESHARD_TRY(ran);
    if (!ran->out_of_memory)
      fit = middle + 1;
    else
      above = middle;
  }
  if (fit > 0) out.longest = lengths[fit - 1];
  return out;
}

}  // namespace foreshard::sim
