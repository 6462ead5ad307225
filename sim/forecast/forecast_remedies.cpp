#include "sim/forecast/forecast_remedies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <tuple>

#include "core/base/shell_word.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::sim {
namespace {

/// One change, and the whole that is simulated: the run's own options joined with it.
struct Change {
  std::string reason;
  std::string alloc_conf;
  std::uint32_t pad = 1;
  std::uint32_t empty_cache_every = 0;
  std::string pytorch = {};  ///< beyond what these say
  bool other_conf = false;   ///< alloc_conf is not the run's own
};

constexpr std::uint32_t kEmptyCacheEvery = 100;  // steps

/// As --options: those that differ from their defaults.
std::string setting_of(const Change& candidate) {
  std::string text;
  const auto add = [&](const std::string& option) { text += (text.empty() ? "" : " ") + option; };
  if (!candidate.alloc_conf.empty()) add("--alloc-conf " + shell_word(candidate.alloc_conf));
  if (candidate.pad > 1) add(fmt::format("--pad {}", candidate.pad));
  if (candidate.empty_cache_every > 0) add(fmt::format("--empty-cache {}", candidate.empty_cache_every));
  return text;
}

/// As lines of the environment and of Python.
std::string pytorch_of(const Change& candidate) {
  std::vector<std::string> lines;
  if (!candidate.alloc_conf.empty()) lines.push_back("PYTORCH_ALLOC_CONF=" + shell_word(candidate.alloc_conf));
  if (!candidate.pytorch.empty()) lines.push_back(candidate.pytorch);
  if (candidate.pad > 1)
    lines.push_back(fmt::format("DataCollatorWithPadding(tokenizer, pad_to_multiple_of={})", candidate.pad));
  if (candidate.empty_cache_every > 0)
    lines.push_back(fmt::format("if (step + 1) % {} == 0: torch.cuda.empty_cache()", candidate.empty_cache_every));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// Changes of one run, on top of what it has already.
class Changes {
 public:
  explicit Changes(const ForecastRemedyRequest& request) : request_(request) {}

  /// In one fixed order. The values are those that PyTorch's documentation and its users start from.
  [[nodiscard]] std::vector<Change> list() {
    const ProcessOptions& process = request_.forecast.process.options;
    add_conf("expandable_segments:True",
             "a segment grows by pages where it is, and no length leaves pieces that no other one fits");
    if (process.limit)
      add_conf("garbage_collection_threshold:0.8",
               "cached segments that were unused longest go back before the limit is reached, one by one in place of "
               "all; it does so under set_per_process_memory_fraction alone",
               fmt::format("torch.cuda.set_per_process_memory_fraction({:.4f})",
                           static_cast<double>(*process.limit) / static_cast<double>(process.memory.total)));
    for (const int mib : {128, 512})
      add_conf(fmt::format("max_split_size_mb:{}", mib),
               fmt::format("blocks of {} MiB and more are not cut up for smaller requests", mib));
    for (const int divisions : {4, 8})
      add_conf(fmt::format("roundup_power2_divisions:{}", divisions),
               "requests of similar lengths are rounded to one size, so that blocks are used again");
    for (const std::uint32_t multiple : {64U, 128U, 512U}) add_padding(multiple);
    if (request_.forecast.process.empty_cache_every == 0) {
      Change empty = own("unused segments go back to the driver now and then; steps behind that ask for them again");
      empty.empty_cache_every = kEmptyCacheEvery;
      list_.push_back(std::move(empty));
    }
    return std::move(list_);
  }

 private:
  [[nodiscard]] Change own(std::string reason) const {
    return {std::move(reason), request_.settings.alloc_conf, request_.pad, request_.forecast.process.empty_cache_every};
  }

  void add_conf(const std::string& conf, std::string reason, std::string pytorch = {}) {
    Change one = own(std::move(reason));
    one.alloc_conf = joined_alloc_conf(one.alloc_conf, conf);
    one.pytorch = std::move(pytorch);
    one.other_conf = true;
    list_.push_back(std::move(one));
  }

  void add_padding(std::uint32_t multiple) {
    if (multiple <= request_.pad || multiple % request_.pad != 0) return;
    Change one = own(fmt::format("batches are padded to a multiple of {} tokens: fewer different lengths", multiple));
    one.pad = multiple;
    list_.push_back(std::move(one));
  }

  const ForecastRemedyRequest& request_;
  std::vector<Change> list_;
};

/// What one change does to some seeds.
struct Ran {
  std::vector<SeedForecast> seeds;
  std::vector<std::string> estimates;  ///< SettingsForecast::estimates
  std::vector<std::string> doubts;     ///< of programs of its own
};

/// A change that can be simulated on any seeds.
struct ChangeTrial {
  ForecastRemedy remedy;  ///< filled in as it runs
  Lengths lengths;        ///< that it pads to
  double samples = 1;     ///< of a step, relative to the run's
  /// On up to `threads` threads. One seed's may run beside other trials.
  std::function<Result<Ran>(const std::vector<std::uint64_t>& seeds, unsigned threads)> run;
};

double tokens(const Lengths& lengths, const std::vector<std::uint64_t>& seeds, std::size_t steps) {
  std::uint64_t sum = 0;
  for (const std::uint64_t seed : seeds)
    for (std::size_t step = 0; step < steps; ++step) sum += lengths.at(seed, step);
  return static_cast<double>(sum);
}

/// What is better comes first. A smaller batch is another training step: it comes behind all that live as long.
auto place_of(const ForecastRemedy& one) {
  const SeedsOutcome& all = one.over_all;
  const bool same = one.price == RemedyPrice::none;
  return std::tuple(one.alone, all.out_of_memory, SIZE_MAX - all.lives_until, one.price == RemedyPrice::batch,
                    all.num_alloc_retries, one.price, all.steps_giving_back, same ? all.churn : 0,
                    same ? all.peak_reserved : 0);
}

/// What a trial did to `ran`, the seeds that it was simulated on.
void fill_in(ChangeTrial& trial, const ForecastRequest& own, std::span<const SeedForecast> ran,
             const SeedsOutcome& before) {
  trial.remedy.over_all = outcome_of(ran);
  trial.remedy.saving =
      static_cast<std::int64_t>(before.peak_reserved) - static_cast<std::int64_t>(trial.remedy.over_all.peak_reserved);
  std::vector<std::uint64_t> seeds;
  for (const SeedForecast& one : ran) seeds.push_back(one.seed);
  trial.remedy.more_tokens =
      tokens(trial.lengths, seeds, own.steps) / tokens(own.lengths, seeds, own.steps) * trial.samples - 1;
}

/// The same for some of its seeds.
ForecastRequest of_seeds(const ForecastRequest& request, const std::vector<std::uint64_t>& seeds, unsigned threads) {
  ForecastRequest again = request;
  again.seeds = seeds;
  again.threads = threads;
  again.on_progress = {};
  again.on_made = {};
  again.known = {};
  return again;
}

Result<Ran> simulate(ProgramSource& programs, const ForecastRemedyRequest& request, const Change& candidate,
                     ForecastRequest again) {
  if (candidate.other_conf) {
    const auto config = parse_alloc_conf(candidate.alloc_conf, request.settings.pytorch);
    FORESHARD_TRY(config);
    again.process.options.config = *config;
    again.process.options.memory = request.memory;
    again.process.options.as_recorded = false;
  }
  again.process.empty_cache_every = candidate.empty_cache_every;
  auto ran = run_forecast(programs, again);
  FORESHARD_TRY(ran);
  return Ran{std::move(*ran), {}, {}};
}

/// Of changes() those that change something, with the programs that `seed` needs made.
std::vector<ChangeTrial> change_trials(ProgramSource& programs, const ForecastRemedyRequest& request,
                                       std::uint64_t seed, std::vector<std::string>& impossible) {
  std::vector<ChangeTrial> out;
  const std::vector<std::uint32_t> own = request.forecast.lengths.distinct(seed, request.forecast.steps);
  for (const Change& candidate : Changes(request).list()) {
    if (candidate.other_conf && candidate.alloc_conf == request.settings.alloc_conf) continue;
    const Lengths padded = request.forecast.lengths.padded(candidate.pad);
    const auto needed = padded.distinct(seed, request.forecast.steps);
    if (candidate.pad != request.pad && needed == own) continue;
    if (const auto made = programs.prepare(needed, request.forecast.threads); !made) {
      impossible.push_back(setting_of(candidate) + ": " + made.error().what);
      continue;
    }
    ChangeTrial& trial = out.emplace_back();
    trial.remedy.setting = setting_of(candidate);
    trial.remedy.reason = candidate.reason;
    trial.remedy.pytorch = pytorch_of(candidate);
    trial.lengths = padded;
    trial.run = [&programs, &request, candidate, padded](const std::vector<std::uint64_t>& seeds, unsigned threads) {
      ForecastRequest again = of_seeds(request.forecast, seeds, threads);
      again.lengths = padded;
      return simulate(programs, request, candidate, std::move(again));
    };
  }
  return out;
}

bool dies_or_retries(const SeedForecast& seed) {
  return seed.out_of_memory || seed.num_alloc_retries() > 0;
}

double batch_of(const Settings& settings) {
  return settings.batch.value_or(1);
}

RemedyPrice price_of(const Settings& settings, const Settings& own) {
  if (settings.batch != own.batch) return RemedyPrice::batch;
  return settings.offload && !own.offload ? RemedyPrice::offloaded : RemedyPrice::program;
}

/// Doubts of one kind differ in how many requests they are of.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

Result<Ran> simulate_with(const ForecastRemedyRequest& request, const Settings& settings, ForecastRequest again) {
  const auto made = request.at_settings(settings);
  FORESHARD_TRY(made);
  again.process.options.memory = made->memory;
  again.process.options.as_recorded = false;
  auto ran = run_forecast(*made->programs, again);
  FORESHARD_TRY(ran);
  return Ran{std::move(*ran), made->estimates, made->programs->doubts()};
}

/// Other settings, with the run's own padding and empty_cache().
std::vector<ChangeTrial> settings_trials(const ForecastRemedyRequest& request) {
  const Change own{{}, request.settings.alloc_conf, request.pad, request.forecast.process.empty_cache_every};
  const auto joined = [](const std::string& first, const std::string& second, const char* between) {
    return second.empty() ? first : first + between + second;
  };
  std::vector<ChangeTrial> out;
  for (const Candidate& candidate : settings_changes(request.settings)) {
    const std::string python =
        candidate.pytorch.empty() ? pytorch_text(request.settings, candidate.settings) : candidate.pytorch;
    ChangeTrial& trial = out.emplace_back();
    trial.remedy.setting = joined(candidate.setting, setting_of(own), " ");
    trial.remedy.reason = candidate.reason;
    trial.remedy.pytorch = joined(python, pytorch_of(own), "\n");
    trial.remedy.price = price_of(candidate.settings, request.settings);
    trial.lengths = request.forecast.lengths;
    trial.samples = batch_of(candidate.settings) / batch_of(request.settings);
    trial.run = [&request, settings = candidate.settings](const std::vector<std::uint64_t>& seeds, unsigned threads) {
      return simulate_with(request, settings, of_seeds(request.forecast, seeds, threads));
    };
  }
  return out;
}

/// Of batches the largest of those that live longest.
void leave_out_smaller(std::vector<ForecastRemedy>& useful) {
  const auto smaller = [](const ForecastRemedy& one) { return one.price == RemedyPrice::batch; };
  const auto rank = [](const ForecastRemedy& one) {
    return std::tuple(one.alone, one.over_all.out_of_memory, SIZE_MAX - one.over_all.lives_until, -one.more_tokens);
  };
  const ForecastRemedy* best = nullptr;
  for (const ForecastRemedy& one : useful)
    if (smaller(one) && (best == nullptr || rank(one) < rank(*best))) best = &one;
  if (best == nullptr) return;
  const std::string kept = best->setting;
  std::erase_if(useful, [&](const ForecastRemedy& one) { return smaller(one) && one.setting != kept; });
}

/// `more`, where they are not `known` already.
void add_doubts(const std::string& setting, const std::vector<std::string>& more, const std::vector<std::string>& known,
                std::vector<std::string>& doubts) {
  const auto among = [](const std::vector<std::string>& list, const std::string& text) {
    return std::any_of(list.begin(), list.end(),
                       [&](const std::string& one) { return without_numbers(one) == without_numbers(text); });
  };
  for (const std::string& doubt : more) {
    const std::string text = fmt::format("{}: {}", setting, doubt);
    if (!among(known, doubt) && !among(doubts, text)) doubts.push_back(text);
  }
}

/// On the seed that fares worst: leaves those of `trials` that help there.
void try_on_seed(std::vector<ChangeTrial>& trials, const ForecastRemedyRequest& request, unsigned threads,
                 const std::vector<std::string>& known, ForecastRemedies& out) {
  std::vector<Result<Ran>> ran(trials.size(), fail(ErrorKind::usage, "not simulated"));
  for_each(
      trials.size(), threads, [&](std::size_t i) { ran[i] = trials[i].run({out.seed}, 1); },
      [&](std::size_t done) {
        if (request.on_progress) request.on_progress(done, trials.size());
      });
  std::vector<ChangeTrial> useful;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    ForecastRemedy& remedy = trials[i].remedy;
    if (!ran[i]) {
      out.impossible.push_back(remedy.setting + ": " + ran[i].error().what);
      continue;
    }
    ++out.tried;
    add_doubts(remedy.setting, ran[i]->doubts, known, out.doubts);
    if (!ran[i]->estimates.empty()) remedy.reason += fmt::format("; {}", fmt::join(ran[i]->estimates, "; "));
    fill_in(trials[i], request.forecast, ran[i]->seeds, out.before_seed);
    remedy.outcome = std::move(ran[i]->seeds.front());
    if (helps(remedy.over_all, out.before_seed)) useful.push_back(std::move(trials[i]));
  }
  trials = std::move(useful);
}

/// On all seeds but that one, which it ran on; false where it does not help all of them together.
bool helps_all(ChangeTrial& trial, const ForecastRemedyRequest& request, const std::vector<std::uint64_t>& others,
               const std::vector<std::string>& known, ForecastRemedies& out) {
  auto ran = trial.run(others, request.forecast.threads);
  if (!ran) {
    --out.tried;
    out.impossible.push_back(trial.remedy.setting + ": " + ran.error().what);
    return false;
  }
  add_doubts(trial.remedy.setting, ran->doubts, known, out.doubts);
  ran->seeds.push_back(trial.remedy.outcome);
  fill_in(trial, request.forecast, ran->seeds, out.before);
  return helps(trial.remedy.over_all, out.before);
}

/// On all seeds, those that help most first: leaves those that help there, and those that stay simulated on one.
void try_on_all(std::vector<ChangeTrial>& trials, const ForecastRemedyRequest& request,
                const std::vector<std::string>& known, ForecastRemedies& out) {
  std::vector<std::uint64_t> others = request.forecast.seeds;
  std::erase(others, out.seed);
  if (others.empty()) return;
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return place_of(trials[a].remedy) < place_of(trials[b].remedy);
  });
  const std::size_t enough = others.size() < kSeedsForAll ? SIZE_MAX : kRemediesForMany;
  std::size_t living = 0;
  std::size_t done = 0;
  std::vector<bool> helpful(trials.size());
  for (const std::size_t i : order) {
    trials[i].remedy.alone = living >= enough;
    helpful[i] = trials[i].remedy.alone || helps_all(trials[i], request, others, known, out);
    if (helpful[i] && trials[i].remedy.over_all.out_of_memory == 0) ++living;
    if (request.on_progress) request.on_progress(++done, trials.size());
  }
  std::size_t next = 0;
  std::erase_if(trials, [&](const ChangeTrial&) { return !helpful[next++]; });
}

}  // namespace

std::string joined_alloc_conf(std::string_view own, std::string_view added) {
  const auto entries = [](std::string_view text) {
    std::vector<std::string_view> list;
    int depth = 0;  // roundup_power2_divisions has a list of its own: [256:1,512:2]
    std::size_t from = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && text[i] == '[') ++depth;
      if (i < text.size() && text[i] == ']') --depth;
      if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
      if (i > from) list.push_back(text.substr(from, i - from));
      from = i + 1;
    }
    return list;
  };
  const auto name = [](std::string_view entry) {
    const std::string_view text = entry.substr(0, entry.find(':'));
    const std::size_t first = text.find_first_not_of(' ');
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(' ') + 1 - first);
  };
  const auto more = entries(added);
  std::string out;
  for (const std::string_view entry : entries(own)) {
    const auto same = [&](std::string_view other) { return name(other) == name(entry); };
    if (std::none_of(more.begin(), more.end(), same)) out += fmt::format("{}{}", out.empty() ? "" : ",", entry);
  }
  for (const std::string_view entry : more) out += fmt::format("{}{}", out.empty() ? "" : ",", entry);
  return out;
}

Result<ForecastRemedies> find_forecast_remedies(ProgramSource& programs, const ForecastRemedyRequest& request,
                                                const std::vector<SeedForecast>& seeds) {
  constexpr std::size_t kManyLengths = 1024;  // whose programs are held for one change at a time
  const SeedForecast& worst = seeds[worst_of(seeds)];
  ForecastRemedies out;
  out.seed = worst.seed;
  out.before = outcome_of(seeds);
  out.before_seed = outcome_of(std::span(&worst, 1));
  const std::vector<std::string> doubts = programs.doubts();
  const unsigned threads = request.forecast.threads;
  std::vector<ChangeTrial> trials = change_trials(programs, request, out.seed, out.impossible);
  try_on_seed(trials, request, threads, {}, out);
  if (request.at_settings && dies_or_retries(worst)) {
    std::vector<ChangeTrial> others = settings_trials(request);
    const std::size_t lengths = request.forecast.lengths.distinct(out.seed, request.forecast.steps).size();
    try_on_seed(others, request, lengths > kManyLengths ? 1 : threads, programs.doubts(), out);
    std::move(others.begin(), others.end(), std::back_inserter(trials));
  }
  try_on_all(trials, request, programs.doubts(), out);
  for (ChangeTrial& trial : trials) out.useful.push_back(std::move(trial.remedy));
  leave_out_smaller(out.useful);
  out.useless = out.tried - out.useful.size();
  std::stable_sort(out.useful.begin(), out.useful.end(),
                   [](const ForecastRemedy& a, const ForecastRemedy& b) { return place_of(a) < place_of(b); });
  std::vector<std::string> of_lengths = programs.doubts();
  std::erase_if(of_lengths, [&](const std::string& one) { return std::ranges::find(doubts, one) != doubts.end(); });
  out.doubts.insert(out.doubts.begin(), of_lengths.begin(), of_lengths.end());
  return out;
}

}  // namespace foreshard::sim
