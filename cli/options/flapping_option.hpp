// `--flapping-adapter` and `--flapping-uplinks`: links that are not always what they are, as options of `plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/option_set.hpp"
#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/predict/flapping.hpp"
#include "sim/predict/rank_difference.hpp"

namespace foreshard::cli {

/// "1.3=200ms/2s:25%" of an adapter, "0=200ms/2s" of a leaf switch's uplinks. Fails (usage) with what to write instead.
[[nodiscard]] Result<sim::FlappingLink> parse_flapping_link(sim::FlappingLink::Kind kind, const std::string& text);

class FlappingOption {
 public:
  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);
  [[nodiscard]] bool given() const { return !adapters_.empty() || !uplinks_.empty(); }
  /// Appends them as they were given.
  void add_given(JobOptions& options) const;
  /// Where one was given, with the defaults of trials and seed. Refused (usage): a link twice, and beside ranks that
  /// die.
  [[nodiscard]] Result<std::optional<sim::FlappingRequest>> read(const Planned& planned,
                                                                 const sim::Differences& differences) const;

 private:
  std::vector<std::string> adapters_;
  std::vector<std::string> uplinks_;
};

}  // namespace foreshard::cli
