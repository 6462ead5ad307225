#include "sim/forecast/forecast_remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sim/parallel/for_each.hpp"

namespace foreshard::sim {
namespace {

struct Candidate {
  std::string setting;
  std::string reason;
  std::string pytorch;
  std::string alloc_conf = {};  ///< what is added to the configuration; empty: nothing
  std::uint32_t pad = 1;
  std::uint32_t empty_cache_every = 0;
};

constexpr std::uint32_t kEmptyCacheEvery = 100;  // steps

Candidate of_conf(const std::string& conf, std::string reason) {
  return {"--alloc-conf " + conf, std::move(reason), "PYTORCH_ALLOC_CONF=" + conf, conf};
}

/// In one fixed order. The values are those that PyTorch's documentation and its users start from.
std::vector<Candidate> candidates(const ProcessOptions& process) {
  std::vector<Candidate> list;
  list.push_back(of_conf("expandable_segments:True",
                         "a segment grows by pages where it is, and no length leaves pieces that no other one fits"));
  if (process.limit) {
    list.push_back(of_conf("garbage_collection_threshold:0.8",
                           "cached segments that were unused longest go back before the limit is reached, one by one "
                           "in place of all; it does so under set_per_process_memory_fraction alone"));
    list.back().pytorch += fmt::format("\ntorch.cuda.set_per_process_memory_fraction({:.4f})",
                                       static_cast<double>(*process.limit) / static_cast<double>(process.memory.total));
  }
  for (const int mib : {128, 512})
    list.push_back(of_conf(fmt::format("max_split_size_mb:{}", mib),
                           fmt::format("blocks of {} MiB and more are not cut up for smaller requests", mib)));
  for (const int divisions : {4, 8})
    list.push_back(of_conf(fmt::format("roundup_power2_divisions:{}", divisions),
                           "requests of similar lengths are rounded to one size, so that blocks are used again"));
  for (const std::uint32_t multiple : {64U, 128U, 512U}) {
    Candidate pad;
    pad.setting = fmt::format("--pad {}", multiple);
    pad.reason = fmt::format("batches are padded to a multiple of {} tokens: fewer different lengths", multiple);
    pad.pytorch = fmt::format("DataCollatorWithPadding(tokenizer, pad_to_multiple_of={})", multiple);
    pad.pad = multiple;
    list.push_back(std::move(pad));
  }
  Candidate empty;
  empty.setting = fmt::format("--empty-cache {}", kEmptyCacheEvery);
  empty.reason = "unused segments go back to the driver now and then; steps behind that ask for them again";
  empty.pytorch = fmt::format("if step % {} == 0: torch.cuda.empty_cache()", kEmptyCacheEvery);
  empty.empty_cache_every = kEmptyCacheEvery;
  list.push_back(std::move(empty));
  return list;
}

std::uint64_t tokens(const Lengths& lengths, std::uint64_t seed, std::size_t steps) {
  std::uint64_t sum = 0;
  for (std::size_t step = 0; step < steps; ++step) sum += lengths.at(seed, step);
  return sum;
}

/// What is better comes first.
auto rank_of(const SeedForecast& seed) {
  const std::size_t lives = seed.out_of_memory ? seed.out_of_memory->step : SIZE_MAX;
  return std::tuple(SIZE_MAX - lives, seed.num_alloc_retries(), seed.peak_reserved());
}

/// Out of memory in the same step, less of it reserved helps nobody.
bool helps(const SeedForecast& outcome, const SeedForecast& before) {
  if (outcome.out_of_memory && before.out_of_memory && outcome.out_of_memory->step <= before.out_of_memory->step)
    return false;
  return rank_of(outcome) < rank_of(before);
}

Result<ForecastRemedy> simulate(ProgramSource& programs, const ForecastRemedyRequest& request,
                                const Candidate& candidate, const Lengths& lengths) {
  ForecastRequest again = request.forecast;
  again.seeds = {request.before.seed};
  again.threads = 1;
  again.on_progress = {};
  again.on_made = {};
  again.lengths = lengths;
  if (!candidate.alloc_conf.empty()) {
    const std::string& own = request.settings.alloc_conf;
    const auto config = parse_alloc_conf(own.empty() ? candidate.alloc_conf : own + "," + candidate.alloc_conf,
                                         request.settings.pytorch);
    FORESHARD_TRY(config);
    again.process.options.config = *config;
    again.process.options.memory = request.memory;
    again.process.options.as_recorded = false;
  }
  if (candidate.empty_cache_every > 0) again.process.empty_cache_every = candidate.empty_cache_every;
  auto ran = run_forecast(programs, again);
  FORESHARD_TRY(ran);
  ForecastRemedy remedy{candidate.setting, candidate.reason, candidate.pytorch, std::move(ran->front()), 0, 0};
  remedy.saving = static_cast<std::int64_t>(request.before.peak_reserved()) -
                  static_cast<std::int64_t>(remedy.outcome.peak_reserved());
  const std::uint64_t before = tokens(request.forecast.lengths, request.before.seed, again.steps);
  remedy.more_tokens =
      static_cast<double>(tokens(lengths, request.before.seed, again.steps)) / static_cast<double>(before) - 1;
  return remedy;
}

}  // namespace

std::size_t worst_of(const std::vector<SeedForecast>& seeds) {
  const auto fares = [](const SeedForecast& seed) {
    return std::tuple(seed.out_of_memory ? seed.out_of_memory->step : SIZE_MAX, seed.first_retry().value_or(SIZE_MAX),
                      UINT64_MAX - seed.peak_reserved());
  };
  const auto worst = std::min_element(
      seeds.begin(), seeds.end(), [&](const SeedForecast& a, const SeedForecast& b) { return fares(a) < fares(b); });
  return static_cast<std::size_t>(worst - seeds.begin());
}

Result<ForecastRemedies> find_forecast_remedies(ProgramSource& programs, const ForecastRemedyRequest& request) {
  ForecastRemedies out;
  out.seed = request.before.seed;
  out.before = request.before;
  std::vector<Candidate> list;
  std::vector<Lengths> lengths;
  const std::vector<std::uint32_t> own = request.forecast.lengths.distinct(out.seed, request.forecast.steps);
  for (Candidate& candidate : candidates(request.forecast.process.options)) {
    Lengths padded = candidate.pad > 1 ? request.forecast.lengths.padded(candidate.pad) : request.forecast.lengths;
    const auto needed = padded.distinct(out.seed, request.forecast.steps);
    if (candidate.pad > 1 && needed == own) continue;
    if (const auto made = programs.prepare(needed, request.forecast.threads); !made) {
      out.impossible.push_back(candidate.setting + ": " + made.error().what);
      continue;
    }
    list.push_back(std::move(candidate));
    lengths.push_back(std::move(padded));
  }
  std::vector<Result<ForecastRemedy>> ran(list.size(), fail(ErrorKind::usage, "not simulated"));
  for_each(
      list.size(), request.forecast.threads,
      [&](std::size_t i) { ran[i] = simulate(programs, request, list[i], lengths[i]); },
      [&](std::size_t done) {
        if (request.on_progress) request.on_progress(done, list.size());
      });
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (!ran[i]) {
      out.impossible.push_back(list[i].setting + ": " + ran[i].error().what);
      continue;
    }
    ++out.tried;
    if (helps(ran[i]->outcome, out.before))
      out.useful.push_back(std::move(*ran[i]));
    else
      ++out.useless;
  }
  std::stable_sort(out.useful.begin(), out.useful.end(), [](const ForecastRemedy& a, const ForecastRemedy& b) {
    return rank_of(a.outcome) < rank_of(b.outcome);
  });
  return out;
}

}  // namespace foreshard::sim
