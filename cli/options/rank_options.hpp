// Ranks, adapters and links that are unlike the others, by what is told of them or by chance, as options of `plan`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/flapping_option.hpp"
#include "cli/options/lengths_option.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/planning.hpp"
#include "cli/options/unlike_options.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/ranks/trials.hpp"

namespace foreshard::cli {

class RankOptions {
 public:
  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);

  /// Ranks in order, each once; adapters and links as they were given. Ranks' own sources are read as `from` says of
  /// the plan's, at the settings of `planned`; their workloads live as long as this.
  [[nodiscard]] Result<sim::Differences> read(const SourceOptions& from, const Planned& planned, Console& console);

  /// What --lengths asks for; none: it was not given. As LengthsOption::read(); to be called before the others, which
  /// see the job that it makes of `planned`. Refused (usage) beside ranks of other programs and links that flap.
  [[nodiscard]] Result<std::optional<sim::DrawnLengths>> lengths(const SettingOptions& settings, Planned& planned,
                                                                 Console& console);
  /// LengthsOption::distribution(), behind lengths().
  [[nodiscard]] const std::optional<sim::Lengths>& distribution() const { return lengths_.distribution(); }
  /// As they were given, behind lengths(); with the jitter, seed and number of trials that these came to, and without
  /// lengths of ranks that are all the job's. `differences`: read().
  [[nodiscard]] JobOptions given(const sim::Differences& differences, const std::optional<sim::TrialsRequest>& trials,
                                 const std::optional<sim::FlappingRequest>& flapping) const;
  [[nodiscard]] std::uint64_t seed() const { return seed_.value_or(0); }

  /// Fails (usage) where --lengths stands beside what is not simulated with it.
  [[nodiscard]] Result<void> check_drawn(const sim::Differences& differences, bool beside) const;

  /// What --jitter and --lengths ask for; none: neither was given. With --jitter recorded a note says what was taken.
  /// Trials run on all cores, with a bar on `console`, which must outlive them.
  [[nodiscard]] Result<std::optional<sim::TrialsRequest>> trials(const SourceOptions& from, const Planned& planned,
                                                                 Console& console) const;

  /// What a link that flaps asks for; none: there is none. Refused beside --jitter. Trials as above.
  [[nodiscard]] Result<std::optional<sim::FlappingRequest>> flapping(const Planned& planned,
                                                                     const sim::Differences& differences,
                                                                     Console& console) const;

  /// How many ranks' timelines the run keeps, as PredictRequest::kept_ranks; none: not said. Refused where the run has
  /// none to keep: nothing but chance tells ranks apart, or one dies. A note where all ranks are alike.
  [[nodiscard]] Result<std::optional<std::uint32_t>> kept(const Planned& planned, const sim::Differences& differences,
                                                          Console& console) const;

 private:
  /// --rank-seq: those whose length is the job's are none of the differences.
  [[nodiscard]] Result<void> add_lengths(const Planned& planned, sim::Differences& out);

  UnlikeOptions unlike_;
  FlappingOption flapping_;
  LengthsOption lengths_;
  std::vector<std::string> source_;
  std::vector<std::string> seq_;
  std::vector<std::string> dead_;
  std::vector<std::string> skipped_;
  std::optional<std::string> jitter_;
  std::optional<std::uint32_t> trials_;
  std::optional<std::uint64_t> seed_;
  std::optional<std::string> kept_;
  std::vector<std::shared_ptr<const Workload>> workloads_;
};

}  // namespace foreshard::cli
