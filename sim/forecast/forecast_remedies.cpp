#include "sim/forecast/forecast_remedies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
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
    lines.push_back(fmt::format("collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of={})", candidate.pad));
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
  Settings settings;      ///< the run's, or what it changes them to
  /// `part`: seeds, steps and threads. One seed's may run beside other trials.
  std::function<Result<Ran>(ForecastRequest part)> run;
};

double tokens(const Lengths& lengths, const std::vector<std::uint64_t>& seeds, std::size_t steps) {
  std::uint64_t sum = 0;
  for (const std::uint64_t seed : seeds)
    for (std::size_t step = 0; step < steps; ++step) sum += lengths.at(seed, step);
  return static_cast<double>(sum);
}

/// It costs time, and nobody knows how much.
bool dear(const ForecastRemedy& one) {
  return (one.price != RemedyPrice::none || one.more_tokens > 0) && !one.step_ms_more;
}

/// What is better comes first. A smaller batch is another training step: it comes behind all that live as long.
auto place_of(const ForecastRemedy& one) {
  const SeedsOutcome& all = one.over_all;
  const bool same = one.price == RemedyPrice::none;
  return std::tuple(one.alone, all.out_of_memory, SIZE_MAX - all.lives_until, one.price == RemedyPrice::batch,
                    dear(one), one.net_ms, one.price, all.steps_giving_back, same ? all.churn : 0,
                    same ? all.peak_reserved : 0);
}

/// What a trial did to `ran`, the seeds that it was simulated on for the steps of `own`.
void fill_in(ChangeTrial& trial, const ForecastRequest& own, std::span<const SeedForecast> ran,
             const SeedsOutcome& before, std::optional<double> own_step_ms) {
  ForecastRemedy& remedy = trial.remedy;
  const SeedsOutcome& now = remedy.over_all = outcome_of(ran);
  remedy.saving = static_cast<std::int64_t>(before.peak_reserved) - static_cast<std::int64_t>(now.peak_reserved);
  std::vector<std::uint64_t> seeds;
  for (const SeedForecast& one : ran) seeds.push_back(one.seed);
  remedy.more_tokens =
      tokens(trial.lengths, seeds, own.steps) / tokens(own.lengths, seeds, own.steps) * trial.samples - 1;
  remedy.steps_more = std::min(now.lives_until, own.steps) - std::min({before.lives_until, now.lives_until, own.steps});
  remedy.retries_less = before.num_alloc_retries - now.num_alloc_retries;
  // Padding makes a step longer by the tokens that it adds.
  if (remedy.price == RemedyPrice::none && remedy.more_tokens > 0 && own_step_ms)
    remedy.step_ms_more = *own_step_ms * remedy.more_tokens;
  // A shorter step is no help against retries: it costs nothing.
  remedy.saved_ms = (before.driver_time - now.driver_time).ms();
  remedy.net_ms = std::max(0.0, remedy.step_ms_more.value_or(0)) * static_cast<double>(own.steps) - remedy.saved_ms;
}

/// The same for some of its seeds and steps.
ForecastRequest part_of(const ForecastRequest& request, const std::vector<std::uint64_t>& seeds, std::size_t steps,
                        unsigned threads, std::atomic<std::size_t>& count) {
  ForecastRequest again = request;
  again.seeds = seeds;
  again.steps = steps;
  again.threads = threads;
  again.count = &count;
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

/// Of changes() those that change something, with the programs made that the first `steps` of `seed` need.
std::vector<ChangeTrial> change_trials(ProgramSource& programs, const ForecastRemedyRequest& request,
                                       std::uint64_t seed, std::size_t steps, std::vector<std::string>& impossible) {
  std::vector<ChangeTrial> out;
  const std::vector<std::uint32_t> own = request.forecast.lengths.distinct(seed, steps);
  for (const Change& candidate : Changes(request).list()) {
    if (candidate.other_conf && candidate.alloc_conf == request.settings.alloc_conf) continue;
    const Lengths padded = request.forecast.lengths.padded(candidate.pad);
    const auto needed = padded.distinct(seed, steps);
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
    trial.settings = request.settings;
    trial.run = [&programs, &request, candidate, padded](ForecastRequest part) {
      part.lengths = padded;
      return simulate(programs, request, candidate, std::move(part));
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
  if (settings.alloc_conf != request.settings.alloc_conf) {
    const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
    FORESHARD_TRY(config);
    again.process.options.config = *config;
  }
  auto ran = run_forecast(*made->programs, again);
  FORESHARD_TRY(ran);
  return Ran{std::move(*ran), made->estimates, made->programs->doubts()};
}

/// Other settings, with the run's own padding and empty_cache(); `conf`: joined with its allocator configuration.
std::vector<ChangeTrial> settings_trials(const ForecastRemedyRequest& request, const std::string& conf) {
  const Change own{{},
                   conf.empty() ? request.settings.alloc_conf : std::string(),
                   request.pad,
                   request.forecast.process.empty_cache_every};
  const auto joined = [](const std::string& first, const std::string& second, const char* between) {
    return first.empty() || second.empty() ? first + second : first + between + second;
  };
  std::vector<ChangeTrial> out;
  for (Candidate& candidate : settings_changes(request.settings)) {
    if (!conf.empty()) {
      candidate.settings.alloc_conf = joined_alloc_conf(candidate.settings.alloc_conf, conf);
      candidate.setting = setting_text(request.settings, candidate.settings);
      candidate.pytorch.clear();
    }
    const std::string python = candidate.pytorch.empty()
                                   ? pytorch_text(request.settings, candidate.settings, request.modules)
                                   : candidate.pytorch;
    ChangeTrial& trial = out.emplace_back();
    trial.remedy.setting = joined(candidate.setting, setting_of(own), " ");
    trial.remedy.reason = candidate.reason;
    trial.remedy.pytorch = joined(python, pytorch_of(own), "\n");
    trial.remedy.price = price_of(candidate.settings, request.settings);
    trial.lengths = request.forecast.lengths;
    trial.samples = batch_of(candidate.settings) / batch_of(request.settings);
    trial.settings = candidate.settings;
    trial.run = [&request, settings = candidate.settings](ForecastRequest part) {
      return simulate_with(request, settings, std::move(part));
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

/// The search for what helps: each change on the seed that fares worst, and those that help there on all.
class Search {
 public:
  Search(ProgramSource& programs, const ForecastRemedyRequest& request, const std::vector<SeedForecast>& seeds)
      : programs_(programs), request_(request), own_(request.forecast), worst_(seeds[worst_of(seeds)]) {
    out_.seed = worst_.seed;
    out_.before = outcome_of(seeds);
    bounded_ = programs.costs_to_prepare() && own_.lengths.distinct(out_.seed, own_.steps).size() > kManyLengths;
    out_.steps_tried = bounded_ ? std::min(own_.steps, std::max(kTriedSteps, 2 * until_trouble())) : own_.steps;
    bounded_ = out_.steps_tried < own_.steps;
  }

  Result<ForecastRemedies> run() {
    const std::vector<std::string> doubts = programs_.doubts();
    FORESHARD_TRY(simulate_before());
    std::vector<ChangeTrial> trials = change_trials(programs_, request_, out_.seed, out_.steps_tried, out_.impossible);
    try_on_seed(trials, own_.threads);
    if (request_.at_settings && dies_or_retries(worst_)) try_settings({}, trials);
    try_on_all(trials);
    if (request_.at_settings && worst_.out_of_memory && !survives(trials) &&
        request_.settings.alloc_conf.find(kExpandable) == std::string::npos) {
      std::vector<ChangeTrial> both;
      try_settings(kExpandable, both);
      try_on_all(both);
      std::move(both.begin(), both.end(), std::back_inserter(trials));
    }
    for (ChangeTrial& trial : trials) {
      const bool retries_alone = out_.before.out_of_memory == 0 && out_.before.num_alloc_retries > 0;
      const bool pays = !retries_alone || trial.remedy.net_ms <= 0;
      (pays ? out_.useful : out_.too_dear).push_back(std::move(trial.remedy));
    }
    for (std::vector<ForecastRemedy>* list : {&out_.useful, &out_.too_dear}) {
      leave_out_smaller(*list);
      std::stable_sort(list->begin(), list->end(),
                       [](const ForecastRemedy& a, const ForecastRemedy& b) { return place_of(a) < place_of(b); });
    }
    out_.useless = out_.tried - out_.useful.size() - out_.too_dear.size();
    std::vector<std::string> of_lengths = programs_.doubts();
    std::erase_if(of_lengths, [&](const std::string& one) { return std::ranges::find(doubts, one) != doubts.end(); });
    out_.doubts.insert(out_.doubts.begin(), of_lengths.begin(), of_lengths.end());
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kHeldLengths = 1024;  // of whose programs those of one change are held at a time
  static constexpr const char* kExpandable = "expandable_segments:True";

  /// Whether a change keeps every seed alive.
  static bool survives(const std::vector<ChangeTrial>& trials) {
    return std::any_of(trials.begin(), trials.end(),
                       [](const ChangeTrial& trial) { return trial.remedy.over_all.out_of_memory == 0; });
  }

  /// Other settings, with `conf`; adds those that help.
  void try_settings(const std::string& conf, std::vector<ChangeTrial>& trials) {
    std::vector<ChangeTrial> others = settings_trials(request_, conf);
    const std::size_t lengths = own_.lengths.distinct(out_.seed, out_.steps_tried).size();
    try_on_seed(others, lengths > kHeldLengths ? 1 : own_.threads);
    std::move(others.begin(), others.end(), std::back_inserter(trials));
  }

  /// Steps of the worst seed until it runs out of memory, or first retries.
  [[nodiscard]] std::size_t until_trouble() const {
    if (worst_.out_of_memory) return worst_.out_of_memory->step + 1;
    return worst_.first_retry().value_or(0) + 1;
  }

  /// The worst seed as it is, for the steps that are tried.
  Result<void> simulate_before() {
    out_.before_seed = outcome_of(std::span(&worst_, 1));
    if (!bounded_) return {};
    const auto ran = run_forecast(programs_, part_of(own_, {out_.seed}, out_.steps_tried, own_.threads, counted_));
    FORESHARD_TRY(ran);
    out_.before_seed = outcome_of(*ran);
    return {};
  }

  void tell(std::size_t of) const {
    if (request_.on_progress) request_.on_progress(std::min(counted_.load(), of), of);
  }

  /// The step as it is, once it is asked for.
  std::optional<double> own_step_ms() {
    if (!own_step_ms_) own_step_ms_ = step_ms(request_.settings);
    return *own_step_ms_;
  }
  /// The mean over the run's lengths (Lengths::shares()).
  [[nodiscard]] std::optional<double> step_ms(const Settings& settings) const {
    if (!request_.step_ms) return std::nullopt;
    std::vector<LengthShare> lengths = own_.lengths.shares(out_.seed, own_.steps);
    if (!request_.step_follows_length) lengths = {{lengths.front().length, 1}};
    double mean = 0;
    for (const LengthShare& one : lengths) {
      const auto ms = request_.step_ms(settings, one.length);
      if (!ms) return std::nullopt;
      mean += one.share * *ms;
    }
    return mean;
  }

  /// On the seed that fares worst: leaves those of `trials` that help there.
  void try_on_seed(std::vector<ChangeTrial>& trials, unsigned threads) {
    const std::vector<std::string> known = programs_.doubts();
    std::vector<Result<Ran>> ran(trials.size(), fail(ErrorKind::usage, "not simulated"));
    counted_ = 0;
    for_each(
        trials.size(), threads,
        [&](std::size_t i) { ran[i] = trials[i].run(part_of(own_, {out_.seed}, out_.steps_tried, 1, counted_)); },
        [&](std::size_t) { tell(trials.size() * out_.steps_tried); });
    std::vector<ChangeTrial> useful;
    ForecastRequest tried = own_;
    tried.steps = out_.steps_tried;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      ForecastRemedy& remedy = trials[i].remedy;
      if (!ran[i]) {
        out_.impossible.push_back(remedy.setting + ": " + ran[i].error().what);
        continue;
      }
      ++out_.tried;
      add_doubts(remedy.setting, ran[i]->doubts, known, out_.doubts);
      if (!ran[i]->estimates.empty()) remedy.reason += fmt::format("; {}", fmt::join(ran[i]->estimates, "; "));
      if (!helps(outcome_of(ran[i]->seeds), out_.before_seed)) continue;
      if (remedy.price != RemedyPrice::none)
        if (const auto with = step_ms(trials[i].settings), own = own_step_ms(); with && own)
          remedy.step_ms_more = *with / trials[i].samples - *own;
      fill_in(trials[i], tried, ran[i]->seeds, out_.before_seed, own_step_ms());
      remedy.outcome = std::move(ran[i]->seeds.front());
      useful.push_back(std::move(trials[i]));
    }
    trials = std::move(useful);
  }

  /// On all seeds, and where it was tried on first steps on all steps; false where it does not help all of them
  /// together.
  bool helps_all(ChangeTrial& trial, const std::vector<std::uint64_t>& seeds) {
    const std::vector<std::string> known = programs_.doubts();
    auto ran = trial.run(part_of(own_, seeds, own_.steps, own_.threads, counted_));
    if (!ran) {
      --out_.tried;
      out_.impossible.push_back(trial.remedy.setting + ": " + ran.error().what);
      return false;
    }
    add_doubts(trial.remedy.setting, ran->doubts, known, out_.doubts);
    if (!bounded_)
      ran->seeds.push_back(trial.remedy.outcome);
    else
      trial.remedy.outcome = *std::ranges::find(ran->seeds, out_.seed, &SeedForecast::seed);
    fill_in(trial, own_, ran->seeds, out_.before, own_step_ms());
    return helps(trial.remedy.over_all, out_.before);
  }

  /// On all seeds, those that help most first: leaves those that help there, and those that stay simulated on one.
  void try_on_all(std::vector<ChangeTrial>& trials) {
    std::vector<std::uint64_t> seeds = own_.seeds;
    if (!bounded_) std::erase(seeds, out_.seed);
    if (seeds.empty()) return;
    std::vector<std::size_t> order(trials.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return place_of(trials[a].remedy) < place_of(trials[b].remedy);
    });
    const std::size_t enough = bounded_                           ? kRemediesForLengths
                               : own_.seeds.size() > kSeedsForAll ? kRemediesForMany
                                                                  : SIZE_MAX;
    const std::size_t most = bounded_ ? kWholeForLengths : SIZE_MAX;
    std::size_t living = 0, whole = 0;
    counted_ = 0;
    std::vector<bool> helpful(trials.size());
    for (const std::size_t i : order) {
      trials[i].remedy.alone = living >= enough || whole >= most;
      if (!trials[i].remedy.alone) ++whole;
      helpful[i] = trials[i].remedy.alone || helps_all(trials[i], seeds);
      const SeedsOutcome& now = trials[i].remedy.over_all;
      const bool mends = out_.before.out_of_memory > 0 ? now.out_of_memory == 0 : now.num_alloc_retries == 0;
      if (helpful[i] && mends) ++living;
      tell(std::min({enough, most, trials.size()}) * seeds.size() * own_.steps);
    }
    std::size_t next = 0;
    std::erase_if(trials, [&](const ChangeTrial&) { return !helpful[next++]; });
  }

  ProgramSource& programs_;
  const ForecastRemedyRequest& request_;
  const ForecastRequest& own_;
  const SeedForecast& worst_;
  bool bounded_ = false;  // tried on the first steps of the worst seed
  std::atomic<std::size_t> counted_ = 0;
  std::optional<std::optional<double>> own_step_ms_;
  ForecastRemedies out_;
};

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
  return Search(programs, request, seeds).run();
}

}  // namespace foreshard::sim
