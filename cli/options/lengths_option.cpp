#include "cli/options/lengths_option.hpp"

#include <fmt/format.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/units.hpp"
#include "sim/predict/predict.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

constexpr std::string_view kOption = "--lengths";
constexpr std::string_view kPad = "--pad";
constexpr std::size_t kMaxDrawn = 64;  // a program of an 8B model takes 0.1 s and 10 MB
constexpr std::uint32_t kMaxPad = 65'536;

/// How many they can be, rounded up to a multiple, is at most `kMaxDrawn`.
bool few(const sim::Lengths& lengths) {
  return lengths.possible().size() <= kMaxDrawn;
}

/// Of one number: how every sample is said to have that length.
std::string single_words(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return {};
  return fmt::format("; {}:1 is that length alone", text);
}

struct SaidLengths {
  sim::Lengths lengths;
  std::string digest;  ///< of what says them
};

/// A file is read once: it may be a pipe.
Result<SaidLengths> read_given(const std::string& text) {
  const auto with = [&](Result<sim::Lengths> lengths, std::string_view said) -> Result<SaidLengths> {
    FORESHARD_TRY(lengths);
    return SaidLengths{std::move(*lengths), digest_of(said)};
  };
  if (sim::is_distribution(text)) return with(sim::parse_distribution(text), text);
  auto file = traces::read_text(text);
  if (!file) {
    // A histogram with a slip in it is no file either.
    const bool digit_first = !text.empty() && text.front() >= '0' && text.front() <= '9';
    if (digit_first || text.find_first_of(":,") != std::string::npos || text.find("..") != std::string::npos)
      file.error().what = "is no histogram of lengths, and as a file of them " + file.error().what;
    file.error().hint = sim::kLengthForms + single_words(text);
    return tl::unexpected(std::move(file).error());
  }
  return with(sim::parse_length_list(*file, text), *file);
}

}  // namespace

Result<sim::Lengths> read_lengths(const std::string& text) {
  auto given = read_given(text);
  FORESHARD_TRY(given);
  return std::move(given->lengths);
}

std::optional<sim::Lengths> stored_lengths(const JobOptions& options) {
  const JobOption* const text = find_option(options, kOption);
  if (text == nullptr || text->values.empty()) return std::nullopt;
  const auto given = read_given(text->values.front());
  if (!given || (!text->digest.empty() && given->digest != text->digest)) return std::nullopt;
  const sim::Lengths drawn = given->lengths.as_distribution();
  const JobOption* const pad = find_option(options, kPad);
  if (pad == nullptr) return drawn;
  const auto multiple = parse_count(pad->values.empty() ? std::string() : pad->values.front());
  return multiple && *multiple > 0 ? std::optional(drawn.padded(*multiple)) : std::nullopt;
}

Result<void> check_own_lengths(std::string_view option, const Planned& planned) {
  const Settings& settings = planned.settings;
  const auto refuse = [&](const char* what, const char* hint) {
    return fail(ErrorKind::usage, what, std::string(option), hint);
  };
  if (!sim::from_model(*planned.workload))
    return refuse("a recording has the lengths that it was made at, and no others",
                  "give --rank-source that rank's own recording, or plan the model");
  if (planned.workload->settings.seq.value_or(1) == 1)
    return refuse("the model has no sequences", "plan a language model");
  if (settings.tensor_parallel > 1)
    return refuse("ranks of a tensor-parallel group work on the same sequences", "leave --tensor-parallel out");
  if (settings.expert_parallel > 1)
    return refuse(
        "ranks of an expert-parallel group exchange as many tokens as they have: their collectives would differ",
        "leave --expert-parallel out");
  return {};
}

void LengthsOption::add_to(OptionSet& set) {
  set.add_option("--lengths", text_,
                 "tokens of a sample, which each rank of a model draws for each step of --trials: a file with one a "
                 "line, a histogram 512:10,1024:5, uniform:256..2048, or lognormal:MEDIAN,SIGMA,256..2048; takes the "
                 "place of --seq")
      .type_name("FILE|HISTOGRAM");
  set.add_option("--pad", pad_,
                 fmt::format("round each of --lengths up to a multiple; default: 1, or the least power of two that "
                             "leaves at most {} lengths",
                             kMaxDrawn))
      .type_name("N")
      .range(1U, kMaxPad);
}

void LengthsOption::add_given(JobOptions& options) const {
  if (!text_) return;
  options.push_back({std::string(kOption), {*text_}, digest_});
  if (pad_) add_option(options, kPad, {std::to_string(*pad_)});
}

Result<std::optional<sim::DrawnLengths>> LengthsOption::read(const SettingOptions& settings, Planned& planned,
                                                             Console& console) {
  if (!text_) {
    if (pad_) return fail(ErrorKind::usage, "--pad is of --lengths", "--pad", "give --lengths, or leave it out");
    return std::nullopt;
  }
  if (settings.given("seq"))
    return fail(ErrorKind::usage, "the lengths are those of --lengths", "--seq", "leave --seq out");
  FORESHARD_TRY(check_own_lengths(kOption, planned));
  if (planned.settings.cuda_graph)
    return fail(ErrorKind::usage, "a CUDA graph replays steps of one length", std::string(kOption),
                "leave --cuda-graph out, or plan one length with --seq");
  auto given = read_given(*text_);
  FORESHARD_TRY(given);
  const sim::Lengths drawn = given->lengths.as_distribution();
  std::uint32_t multiple = pad_.value_or(1);
  while (!pad_ && multiple < kMaxPad && !few(drawn.padded(multiple))) multiple *= 2;
  const sim::Lengths lengths = drawn.padded(multiple);
  const std::vector<std::uint32_t> possible = lengths.possible();
  if (possible.size() > kMaxDrawn)
    return fail(
        ErrorKind::usage,
        fmt::format("{} different lengths: a program is made for each, of at most {}", possible.size(), kMaxDrawn),
        std::string(kOption), "give a larger --pad, or leave it out");
  if (!pad_ && multiple > 1)
    console.note(
        fmt::format("{} different lengths are rounded up to multiples of {}, which leaves {}: a program is made "
                    "for each; --pad says another multiple",
                    drawn.possible().size(), multiple, possible.size()));
  const std::shared_ptr<sim::WorkloadSource> source = traces::workloads_of(planned.source, planned.machine);
  const auto program = [source, at = planned.settings](std::uint32_t length) {
    Settings of_length = at;
    of_length.seq = length;
    return source->at(of_length);
  };
  auto longest = program(possible.back());
  if (!longest) return tl::unexpected(settings.with_file(longest.error()));
  planned.settings.seq = possible.back();
  planned.workload = std::move(*longest);
  std::string said = given->lengths.drawn() ? *text_ : "the lines of " + *text_;
  distribution_ = pad_ ? lengths : drawn;
  if (!given->lengths.drawn()) digest_ = given->digest;
  if (multiple > 1) said += fmt::format(", rounded up to multiples of {}", multiple);
  return sim::DrawnLengths{std::move(said),
                           std::move(given->digest),
                           possible,
                           multiple,
                           [lengths](std::uint64_t key, std::size_t step) { return lengths.at(key, step); },
                           program};
}

}  // namespace foreshard::cli
