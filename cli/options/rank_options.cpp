#include "cli/options/rank_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/units.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/recorded_jitter.hpp"
#include "traces/files/text_file.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

constexpr std::string_view kRankSeq = "--rank-seq";

/// "RANK" or "RANK@STEP".
Result<sim::RankDifference> parse_dead(const std::string& text) {
  const std::size_t at = text.find('@');
  const auto rank = parse_count(std::string_view(text).substr(0, at));
  const auto step = at == std::string::npos ? Result<std::uint32_t>(sim::kInReportedStep)
                                            : parse_count(std::string_view(text).substr(at + 1));
  if (!rank || !step || (at != std::string::npos && *step >= sim::kInReportedStep))
    return fail(ErrorKind::usage, fmt::format("--dead-rank '{}' is not RANK or RANK@STEP", text), {},
                "as in --dead-rank 5@2: rank 5 issues nothing from step 2 on");
  sim::RankDifference out;
  out.rank = *rank;
  out.dead_from = *step;
  return out;
}

struct SkippedBy {
  std::uint32_t rank = 0;
  sim::SkippedUnit skipped;
};

/// "RANK=UNIT" or "RANK=UNIT@STEP".
Result<SkippedBy> parse_skipped(const std::string& text) {
  const auto given = parse_of_rank("--skip-unit", text);
  FORESHARD_TRY(given);
  const std::size_t at = given->value.find('@');
  SkippedBy out{given->rank, {given->value.substr(0, at), sim::kInReportedStep}};
  if (at == std::string::npos) return out;
  const auto step = parse_count(std::string_view(given->value).substr(at + 1));
  if (!step || *step >= sim::kInReportedStep)
    return fail(ErrorKind::usage, fmt::format("--skip-unit '{}' is not RANK=UNIT or RANK=UNIT@STEP", text), {},
                "as in --skip-unit 3=layers.5@2: rank 3 does not run layers.5 from step 2 on");
  out.skipped.from_step = *step;
  return out;
}

std::uint64_t parameters_of(const Unit& unit) {
  std::uint64_t sum = 0;
  for (const Parameter& parameter : unit.parameters) sum += parameter.numel();
  return sum;
}

std::uint64_t parameters_of(const Workload& workload) {
  std::uint64_t sum = 0;
  for (const Unit& unit : workload.units) sum += parameters_of(unit);
  return sum;
}

/// Where `other` is another model than the job's: by what. A recording has no names of parameters, so units tell.
std::string other_model(const Workload& other, const Workload& job) {
  const std::uint64_t has = parameters_of(other), wanted = parameters_of(job);
  if (has != wanted) return fmt::format("another model: {} parameters, the job's has {}", has, wanted);
  for (std::size_t i = 0; other.units.size() == job.units.size() && i < job.units.size(); ++i) {
    const std::uint64_t own = parameters_of(other.units[i]), same = parameters_of(job.units[i]);
    if (own != same)
      return fmt::format("another model: {} has {} parameters, the job's {}",
                         job.units[i].name.empty() ? "the root" : job.units[i].name, own, same);
  }
  return {};
}

std::string size_words(const Settings& settings) {
  const std::string batch = settings.batch ? std::to_string(*settings.batch) : "an unknown number of";
  return settings.seq.value_or(1) > 1 ? fmt::format("{} × {} tokens a GPU", batch, *settings.seq)
                                      : fmt::format("{} samples a GPU", batch);
}

/// Ranks of one job train one model, on batches of one size. A recording is of the job that it was made in; a model's
/// workload is made for the planned one.
Result<void> check_same_job(std::uint32_t rank, const std::string& file, const Workload& other, bool recorded,
                            const Planned& planned) {
  const auto refuse = [&](const std::string& what) {
    return fail(ErrorKind::mismatch, fmt::format("--rank-source {}: {}", rank, what), file,
                "a rank's source is a recording of the same training: an import of that rank's own trace");
  };
  if (const std::string what = other_model(other, *planned.workload); !what.empty()) return refuse(what);
  if (!recorded) return {};
  const Settings& mine = other.settings;
  const Settings& job = planned.source.model ? planned.settings : planned.workload->settings;
  if (mine.world() != job.world())
    return refuse(fmt::format("a recording of {} GPUs, the job has {}", mine.world(), job.world()));
  if (mine.batch != job.batch || mine.seq != job.seq)
    return refuse(fmt::format("a recording of {}, the job has {}", size_words(mine), size_words(job)));
  return {};
}

using Lengths = std::map<std::uint32_t, std::uint32_t>;  // by rank

/// "RANKS=N,RANKS=N".
Result<void> parse_lengths(const std::string& text, Lengths& out) {
  constexpr std::string_view kExample = "5=4096,6-7=1024, or @FILE with a length a line";
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const auto given = parse_of_ranks(kRankSeq, text.substr(begin, comma - begin), kExample);
    FORESHARD_TRY(given);
    const auto seq = parse_count(given->value);
    if (!seq || *seq == 0)
      return fail(ErrorKind::usage, fmt::format("{}: '{}' is no number of tokens", kRankSeq, given->value), {},
                  fmt::format("as in {} {}", kRankSeq, kExample));
    for (std::uint32_t rank = given->first; rank <= given->last; ++rank)
      FORESHARD_TRY(said_once(kRankSeq, rank, !out.emplace(rank, *seq).second));
    begin = comma + 1;
  }
  return {};
}

/// A file of a length a line, rank 0's first, as --lengths reads one.
Result<void> read_lengths(const std::string& path, std::uint32_t world, Lengths& out) {
  const auto text = traces::read_text(path);
  FORESHARD_TRY(text);
  const auto lengths = sim::parse_length_list(*text, path);
  FORESHARD_TRY(lengths);
  if (lengths->size() != world)
    return fail(ErrorKind::usage, fmt::format("{} lengths, the job has {} ranks", lengths->size(), world), path,
                "give a line for each rank, rank 0's first");
  for (std::uint32_t rank = 0; rank < world; ++rank)
    FORESHARD_TRY(said_once(kRankSeq, rank, !out.emplace(rank, lengths->at(0, rank)).second));
  return {};
}

/// Whether ranks of the planned job can have lengths of their own.
Result<void> check_lengths(const Planned& planned, bool hangs) {
  FORESHARD_TRY(check_own_lengths(kRankSeq, planned));
  if (hangs)
    return fail(ErrorKind::usage, "a rank that dies or skips a unit is not simulated beside lengths of ranks",
                std::string(kRankSeq), "leave --dead-rank and --skip-unit out");
  return {};
}

/// What the recording shows, with a note of it.
Result<sim::Jitter> recorded(const SourceOptions& from, const Planned& planned, Console& console) {
  constexpr const char* kHint = "give spreads, as in --jitter kernels=lognormal:2%,gpus=normal:1%";
  if (planned.source.model)
    return fail(ErrorKind::usage, "--jitter recorded: a model is no recording", from.source.text, kHint);
  const auto run = traces::read_run(from.source.text, {console.unverified});
  if (!run) return fail(ErrorKind::usage, "--jitter recorded: is no run store", from.source.text, kHint);
  const auto found = sim::recorded_jitter(*run);
  if (!found)
    return fail(ErrorKind::usage, "--jitter recorded: is no recording of two steps or ranks that issue the same",
                from.source.text, kHint);
  console.note(fmt::format("--jitter {}: {}", sim::text_of(found->jitter), found->rests_on));
  return found->jitter;
}

/// A bar for trials.
std::function<void(std::size_t)> progress_of(std::uint32_t count, Console& console) {
  return [progress = std::make_shared<Progress>(console, "simulating trials"), count](std::size_t done) {
    progress->at(done, count);
  };
}

}  // namespace

void RankOptions::add_to(OptionSet& set) {
  unlike_.add_to(set);
  flapping_.add_to(set);
  set.add_option("--rank-source", source_,
                 "a rank that runs another recording of the same training (its own trace); may be repeated")
      .type_name("RANK=RUN");
  set.add_option("--rank-seq", seq_,
                 "ranks of a model whose samples have N tokens, where the others' have --seq; as in 5=4096,6-7=1024; "
                 "@FILE: a length a line, rank 0's first; may be repeated")
      .type_name("RANKS=N,…|@FILE");
  set.add_option(
         "--dead-rank", dead_,
         "a rank that issues nothing from STEP on (default: the step that is reported): who waits for whom, and "
         "when PyTorch ends the job; as in 5@2; may be repeated")
      .type_name("RANK[@STEP]");
  set.add_option(
         "--skip-unit", skipped_,
         "a rank whose data do not come to an FSDP unit from STEP on (default: the step that is reported), so that it "
         "calls other collectives than the others: who waits for whom; as in 3=layers.5; may be repeated")
      .type_name("RANK=UNIT[@STEP]");
  set.add_option(
         "--jitter", jitter_,
         "what chance does to times, in standard deviations of a factor of mean 1: kernels and host for each op, "
         "gpus and hosts for each rank and trial; normal or lognormal, as in "
         "kernels=lognormal:2%,host=lognormal:10%,gpus=normal:1%; or recorded: what the source's steps and ranks "
         "show")
      .type_name("SPREADS|recorded");
  lengths_.add_to(set);
  set.add_option("--trials", trials_,
                 "how often a job with jitter, with drawn lengths, or with links that flap, is simulated; default 100")
      .type_name("N")
      .range(1U, sim::kMaxTrials);
  set.add_option("--seed", seed_,
                 "of jitter, of drawn lengths, and of when links flap: equal seeds give equal times; default 0")
      .type_name("N");
  set.add_option(
         "--ranks", kept_,
         "of ranks that differ: whose timelines the run keeps, for explain, view and fit: all, or of K groups of equal "
         "ranks one, those that the others wait for longest first; the rank whose times and memory the plan tells is "
         "always among them. Each takes as much of the store as that one's ops; equal ranks are kept once. Default: "
         "each rank of a job of up to 16, else 16 groups")
      .type_name("all|K");
}

Result<std::optional<sim::DrawnLengths>> RankOptions::lengths(const SettingOptions& settings, Planned& planned,
                                                              Console& console) {
  const auto refuse = [&](const char* what, const char* option) {
    return fail(ErrorKind::usage, what, option, "leave one of the two out");
  };
  if (lengths_.given() && !seq_.empty()) return refuse("ranks have told lengths, or draw them", kRankSeq.data());
  if (lengths_.given() && !source_.empty())
    return refuse("a rank with its own source draws no lengths", "--rank-source");
  if (lengths_.given() && !dead_.empty())
    return refuse("a job in which a rank dies has no steps to draw", "--dead-rank");
  if (lengths_.given() && !skipped_.empty()) return refuse("a rank that skips a unit draws no lengths", "--skip-unit");
  if (lengths_.given() && flapping_.given())
    return refuse("drawn lengths and links that flap are not simulated at once", "--flapping-adapter");
  return lengths_.read(settings, planned, console);
}

JobOptions RankOptions::given(const sim::Differences& differences, const std::optional<sim::TrialsRequest>& trials,
                              const std::optional<sim::FlappingRequest>& flapping) const {
  JobOptions out = unlike_.given();
  flapping_.add_given(out);
  add_option(out, "--rank-source", source_);
  if (std::any_of(differences.ranks.begin(), differences.ranks.end(), [](const auto& rank) { return rank.seq > 0; }))
    add_option(out, kRankSeq, seq_);
  add_option(out, "--dead-rank", dead_);
  add_option(out, "--skip-unit", skipped_);
  if (trials && jitter_) add_option(out, "--jitter", {sim::text_of(trials->jitter)});
  lengths_.add_given(out);
  if (!trials && !flapping) return out;
  add_option(out, "--trials", {std::to_string(trials ? trials->trials : flapping->trials)});
  add_option(out, "--seed", {std::to_string(trials ? trials->seed : flapping->seed)});
  return out;
}

Result<void> RankOptions::check_drawn(const sim::Differences& differences, bool beside) const {
  if (!lengths_.given()) return {};
  const auto refuse = [&](const char* what, const char* option) {
    return fail(ErrorKind::usage, what, option, "leave one of the two out");
  };
  const auto gemms = [](const sim::RankDifference& rank) { return rank.gemms.has_value(); };
  if (std::any_of(differences.ranks.begin(), differences.ranks.end(), gemms))
    return refuse("a rank with extra products draws no lengths", "--rank-gemm");
  if (!differences.links_alike())
    return refuse("links that differ are not simulated beside drawn lengths", "--lengths");
  if (beside) return refuse("another job is not simulated beside drawn lengths", "--beside");
  return {};
}

Result<std::optional<std::uint32_t>> RankOptions::kept(const Planned& planned, const sim::Differences& differences,
                                                       Console& console) const {
  if (!kept_) return std::nullopt;
  const auto count = *kept_ == "all" ? Result<std::uint32_t>(sim::kAllRanks) : parse_count(*kept_);
  if (!count || *count == 0)
    return fail(ErrorKind::usage, fmt::format("--ranks '{}' is neither all nor a number from 1", *kept_), {},
                "as in --ranks all, or --ranks 32");
  if (!differences.empty()) return count;
  if (jitter_)
    return fail(ErrorKind::usage,
                "--ranks keeps timelines of the job without chance, and nothing else tells its ranks apart", {},
                "leave it out: one rank stands for all");
  console.note(fmt::format("all {} ranks are alike: the run's one stands for each", planned.settings.world()));
  return std::nullopt;
}

Result<sim::Differences> RankOptions::read(const SourceOptions& from, const Planned& planned, Console& console) {
  auto out = unlike_.read(planned.machine.network);
  FORESHARD_TRY(out);
  std::map<std::uint32_t, sim::RankDifference> by_rank;
  for (const sim::RankDifference& difference : out->ranks) by_rank[difference.rank] = difference;
  const auto of = [&](std::uint32_t rank) -> sim::RankDifference& {
    sim::RankDifference& difference = by_rank[rank];
    difference.rank = rank;
    return difference;
  };
  for (const std::string& text : source_) {
    constexpr std::string_view option = "--rank-source";
    const auto given = parse_of_rank(option, text);
    FORESHARD_TRY(given);
    SourceOptions options = from;
    options.source.text = given->value;
    const auto source = read_source(options, console);
    FORESHARD_TRY(source);
    for (const std::string& note : source->notes) console.note(note);
    auto workload = traces::workloads_of(*source, planned.machine)->at(planned.settings);
    FORESHARD_TRY(workload);
    if ((*workload)->lowering != planned.workload->lowering)
      return fail(ErrorKind::usage, "the ranks of one job run one lowering", given->value, "give --lowering for all");
    FORESHARD_TRY(check_same_job(given->rank, given->value, **workload, !source->model, planned));
    for (const std::string& warning : source->warnings) console.warn(fmt::format("rank {}: {}", given->rank, warning));
    workloads_.push_back(*workload);
    FORESHARD_TRY(said_once(option, given->rank, of(given->rank).workload != nullptr));
    if (of(given->rank).gemms)
      return fail(ErrorKind::usage, fmt::format("rank {} has a source and extra products", given->rank), "--rank-gemm",
                  "leave one of the two out: a recording of the rank has its own kernels");
    of(given->rank).workload = workloads_.back().get();
  }
  for (const std::string& text : dead_) {
    const auto given = parse_dead(text);
    FORESHARD_TRY(given);
    sim::RankDifference& difference = of(given->rank);
    FORESHARD_TRY(said_once("--dead-rank", given->rank, difference.dead_from != sim::kNeverDies));
    difference.dead_from = given->dead_from;
  }
  for (const std::string& text : skipped_) {
    const auto given = parse_skipped(text);
    FORESHARD_TRY(given);
    sim::RankDifference& difference = of(given->rank);
    FORESHARD_TRY(said_once("--skip-unit", given->rank, difference.skips.has_value()));
    difference.skips = given->skipped;
  }
  out->ranks.clear();
  for (const auto& [rank, difference] : by_rank) out->ranks.push_back(difference);
  FORESHARD_TRY(add_lengths(planned, *out));
  return out;
}

Result<void> RankOptions::add_lengths(const Planned& planned, sim::Differences& out) {
  if (seq_.empty()) return {};
  FORESHARD_TRY(check_lengths(planned, !dead_.empty() || !skipped_.empty()));
  const std::uint32_t world = planned.settings.world(), job = *planned.workload->settings.seq;
  Lengths lengths;
  for (const std::string& text : seq_)
    FORESHARD_TRY(text.starts_with('@') ? read_lengths(text.substr(1), world, lengths) : parse_lengths(text, lengths));
  if (!lengths.empty()) FORESHARD_TRY(sim::check_rank(lengths.rbegin()->first, world, ""));
  std::erase_if(lengths, [&](const auto& of) { return of.second == job; });  // as the others
  if (!lengths.empty() && lengths.rbegin()->first < world && lengths.size() == world)
    return fail(ErrorKind::usage, fmt::format("no rank has the {} tokens of --seq", job), std::string(kRankSeq),
                "give --seq the length of one of them");
  std::map<std::uint32_t, sim::RankDifference> by_rank;
  for (const sim::RankDifference& difference : out.ranks) by_rank[difference.rank] = difference;
  const auto source = traces::workloads_of(planned.source, planned.machine);
  std::map<std::uint32_t, const Workload*> made;
  for (const auto& [rank, seq] : lengths) {
    if (made[seq] == nullptr) {
      Settings settings = planned.settings;
      settings.seq = seq;
      auto workload = source->at(settings);
      FORESHARD_TRY(workload);
      workloads_.push_back(*workload);
      made[seq] = workload->get();
    }
    sim::RankDifference& difference = by_rank[rank];
    if (difference.workload != nullptr)
      return fail(ErrorKind::usage, fmt::format("rank {} has a source and a length", rank), std::string(kRankSeq),
                  "leave one of the two out");
    difference.rank = rank;
    difference.seq = seq;
    difference.workload = made[seq];
  }
  out.ranks.clear();
  for (const auto& [rank, difference] : by_rank) out.ranks.push_back(difference);
  return {};
}

Result<std::optional<sim::FlappingRequest>> RankOptions::flapping(const Planned& planned,
                                                                  const sim::Differences& differences,
                                                                  Console& console) const {
  auto out = flapping_.read(planned, differences);
  FORESHARD_TRY(out);
  if (!*out) return std::nullopt;
  if (jitter_)
    return fail(ErrorKind::usage, "chance and links that flap are not simulated at once", "--jitter",
                "leave one of the two out");
  (*out)->trials = trials_.value_or((*out)->trials);
  (*out)->seed = seed_.value_or(0);
  (*out)->threads = sim::hardware_threads();
  (*out)->progress = [progress = std::make_shared<Progress>(console, "simulating trials")](
                         std::size_t done, std::size_t all) { progress->at(done, all); };
  return out;
}

Result<std::optional<sim::TrialsRequest>> RankOptions::trials(const SourceOptions& from, const Planned& planned,
                                                              Console& console) const {
  if (!jitter_ && !lengths_.given()) {
    if ((trials_ || seed_) && !flapping_.given())
      return fail(
          ErrorKind::usage,
          fmt::format("{} is of --jitter, of --lengths, or of a link that flaps", trials_ ? "--trials" : "--seed"), {},
          "as in --jitter kernels=lognormal:2%,gpus=normal:1%");
    return std::nullopt;
  }
  if (jitter_ && !planned.workload->has_timing)
    return fail(ErrorKind::usage, "SOURCE has no times for --jitter to draw around", from.source.text,
                "import it with its profiler trace");
  if (!dead_.empty() || !skipped_.empty())
    return fail(ErrorKind::usage, "a job in which a rank dies or skips a unit has no step for --jitter to draw");
  sim::TrialsRequest out;
  if (jitter_) {
    auto jitter = *jitter_ == "recorded" ? recorded(from, planned, console) : sim::parse_jitter(*jitter_);
    FORESHARD_TRY(jitter);
    out.jitter = *jitter;
  }
  out.seed = seed_.value_or(out.seed);
  out.trials = trials_.value_or(out.trials);
  out.threads = sim::hardware_threads();
  out.progress = progress_of(out.trials, console);
  return out;
}

}  // namespace foreshard::cli
