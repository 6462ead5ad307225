#include "sim/forecast/forecast_remedies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

std::uint64_t tokens(const Lengths& lengths, std::uint64_t seed, std::size_t steps) {
  std::uint64_t sum = 0;
  for (std::size_t step = 0; step < steps; ++step) sum += lengths.at(seed, step);
  return sum;
}

/// What is better comes first.
auto rank_of(const SeedForecast& seed) {
  return std::tuple(SIZE_MAX - seed.lives_until(), seed.steps_giving_back, seed.churn(), seed.peak_reserved());
}

/// Out of memory in the same step, less of it reserved helps nobody; nor does less of it reserved in a run that gives
/// segments back in more steps, retries more often, or calls the driver more often to.
bool helps(const SeedForecast& outcome, const SeedForecast& before) {
  if (outcome.lives_until() != before.lives_until()) return outcome.lives_until() > before.lives_until();
  if (outcome.out_of_memory) return false;
  if (outcome.steps_giving_back > before.steps_giving_back || outcome.churn() > before.churn()) return false;
  if (outcome.num_alloc_retries() > before.num_alloc_retries()) return false;
  return rank_of(outcome) < rank_of(before);
}

/// The same for the seed that remedies are tried on.
ForecastRequest one_seed(const ForecastRemedyRequest& request) {
  ForecastRequest again = request.forecast;
  again.seeds = {request.before.seed};
  again.threads = 1;
  again.on_progress = {};
  again.on_made = {};
  return again;
}

/// Counts what ran, and keeps it where it helps.
void keep(ForecastRemedy remedy, ForecastRemedies& out) {
  ++out.tried;
  if (helps(remedy.outcome, out.before))
    out.useful.push_back(std::move(remedy));
  else
    ++out.useless;
}

Result<ForecastRemedy> simulate(ProgramSource& programs, const ForecastRemedyRequest& request, const Change& candidate,
                                const Lengths& lengths) {
  ForecastRequest again = one_seed(request);
  again.lengths = lengths;
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
  ForecastRemedy remedy{setting_of(candidate), candidate.reason, pytorch_of(candidate), std::move(ran->front()), 0, 0,
                        RemedyPrice::none};
  remedy.saving = static_cast<std::int64_t>(request.before.peak_reserved()) -
                  static_cast<std::int64_t>(remedy.outcome.peak_reserved());
  const std::uint64_t before = tokens(request.forecast.lengths, request.before.seed, again.steps);
  remedy.more_tokens =
      static_cast<double>(tokens(lengths, request.before.seed, again.steps)) / static_cast<double>(before) - 1;
  return remedy;
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

/// Other settings, with the run's own padding and empty_cache(). `doubts`: those of its programs.
Result<ForecastRemedy> simulate_settings(const ForecastRemedyRequest& request, const Candidate& candidate,
                                         const std::vector<std::uint32_t>& lengths, std::vector<std::string>& doubts) {
  const auto made = request.at_settings(candidate.settings);
  FORESHARD_TRY(made);
  FORESHARD_TRY(made->programs->prepare(lengths, 1));
  doubts = made->programs->doubts();
  ForecastRequest again = one_seed(request);
  again.process.options.memory = made->memory;
  again.process.options.as_recorded = false;
  auto ran = run_forecast(*made->programs, again);
  FORESHARD_TRY(ran);
  const Change own{{}, request.settings.alloc_conf, request.pad, request.forecast.process.empty_cache_every};
  const auto joined = [](std::string first, const std::string& second, const char* between) {
    return second.empty() ? first : std::move(first) + between + second;
  };
  std::string python =
      candidate.pytorch.empty() ? pytorch_text(request.settings, candidate.settings) : candidate.pytorch;
  ForecastRemedy remedy{joined(candidate.setting, setting_of(own), " "),
                        joined(candidate.reason, fmt::format("{}", fmt::join(made->estimates, "; ")), "; "),
                        joined(std::move(python), pytorch_of(own), "\n"),
                        std::move(ran->front()),
                        0,
                        batch_of(candidate.settings) / batch_of(request.settings) - 1,
                        price_of(candidate.settings, request.settings)};
  remedy.saving = static_cast<std::int64_t>(request.before.peak_reserved()) -
                  static_cast<std::int64_t>(remedy.outcome.peak_reserved());
  return remedy;
}

/// Of batches the largest of those that live longest.
void leave_out_smaller(std::vector<ForecastRemedy>& useful) {
  const auto smaller = [](const ForecastRemedy& one) { return one.price == RemedyPrice::batch; };
  std::size_t longest = 0;
  for (const ForecastRemedy& one : useful)
    if (smaller(one)) longest = std::max(longest, one.outcome.lives_until());
  bool found = false;
  std::erase_if(useful, [&](const ForecastRemedy& one) {
    if (!smaller(one)) return false;
    const bool kept = !found && one.outcome.lives_until() == longest;
    found |= kept;
    return !kept;
  });
}

/// Adds what other settings do.
void try_settings(const ForecastRemedyRequest& request, const std::vector<std::uint32_t>& lengths,
                  const std::vector<std::string>& known, ForecastRemedies& out) {
  constexpr std::size_t kManyLengths = 1024;  // whose programs are held for one change at a time
  const std::vector<Candidate> list = settings_changes(request.settings);
  std::vector<Result<ForecastRemedy>> ran(list.size(), fail(ErrorKind::usage, "not simulated"));
  std::vector<std::vector<std::string>> doubts(list.size());
  for_each(
      list.size(), lengths.size() > kManyLengths ? 1 : request.forecast.threads,
      [&](std::size_t i) { ran[i] = simulate_settings(request, list[i], lengths, doubts[i]); },
      [&](std::size_t done) {
        if (request.on_progress) request.on_progress(done, list.size());
      });
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (!ran[i]) {
      out.impossible.push_back(list[i].setting + ": " + ran[i].error().what);
      continue;
    }
    for (const std::string& doubt : doubts[i])
      if (std::none_of(known.begin(), known.end(),
                       [&](const std::string& own) { return without_numbers(own) == without_numbers(doubt); }))
        out.doubts.push_back(list[i].setting + ": " + doubt);
    keep(std::move(*ran[i]), out);
  }
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

std::size_t worst_of(const std::vector<SeedForecast>& seeds) {
  const auto fares = [](const SeedForecast& seed) {
    return std::tuple(seed.lives_until(), seed.first_retry().value_or(SIZE_MAX), UINT64_MAX - seed.peak_reserved());
  };
  const auto worst = std::min_element(
      seeds.begin(), seeds.end(), [&](const SeedForecast& a, const SeedForecast& b) { return fares(a) < fares(b); });
  return static_cast<std::size_t>(worst - seeds.begin());
}

Result<ForecastRemedies> find_forecast_remedies(ProgramSource& programs, const ForecastRemedyRequest& request) {
  ForecastRemedies out;
  out.seed = request.before.seed;
  out.before = request.before;
  std::vector<Change> list;
  std::vector<Lengths> lengths;
  const std::vector<std::string> doubts = programs.doubts();
  const std::vector<std::uint32_t> own = request.forecast.lengths.distinct(out.seed, request.forecast.steps);
  for (Change& candidate : Changes(request).list()) {
    if (candidate.other_conf && candidate.alloc_conf == request.settings.alloc_conf) continue;
    Lengths padded = request.forecast.lengths.padded(candidate.pad);
    const auto needed = padded.distinct(out.seed, request.forecast.steps);
    if (candidate.pad != request.pad && needed == own) continue;
    if (const auto made = programs.prepare(needed, request.forecast.threads); !made) {
      out.impossible.push_back(setting_of(candidate) + ": " + made.error().what);
      continue;
    }
    list.push_back(std::move(candidate));
    lengths.push_back(std::move(padded));
  }
  for (const std::string& doubt : programs.doubts())
    if (std::find(doubts.begin(), doubts.end(), doubt) == doubts.end()) out.doubts.push_back(doubt);
  std::vector<Result<ForecastRemedy>> ran(list.size(), fail(ErrorKind::usage, "not simulated"));
  for_each(
      list.size(), request.forecast.threads,
      [&](std::size_t i) { ran[i] = simulate(programs, request, list[i], lengths[i]); },
      [&](std::size_t done) {
        if (request.on_progress) request.on_progress(done, list.size());
      });
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (!ran[i]) {
      out.impossible.push_back(setting_of(list[i]) + ": " + ran[i].error().what);
      continue;
    }
    keep(std::move(*ran[i]), out);
  }
  if (request.at_settings && dies_or_retries(out.before)) try_settings(request, own, programs.doubts(), out);
  leave_out_smaller(out.useful);
  const auto place = [](const ForecastRemedy& one) {
    const auto [dead, giving_back, churn, peak] = rank_of(one.outcome);
    const bool same = one.price == RemedyPrice::none;
    return std::tuple(dead, one.price, giving_back, same ? churn : 0, same ? peak : 0);
  };
  std::stable_sort(out.useful.begin(), out.useful.end(),
                   [&](const ForecastRemedy& a, const ForecastRemedy& b) { return place(a) < place(b); });
  return out;
}

}  // namespace foreshard::sim
