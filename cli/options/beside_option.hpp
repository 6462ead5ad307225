// `--beside`: another job on the same fabric, as an option of `plan`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options/option_set.hpp"
#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/predict/beside.hpp"
#include "sim/predict/rank_difference.hpp"

namespace foreshard::cli {

class BesideOption {
 public:
  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);

  /// None: it was not given. A source of its own is read as `from` says of the plan's; its workload lives as long as
  /// this. `ranks`: of the plan, none of which may die.
  [[nodiscard]] Result<std::optional<sim::BesideRequest>> read(const SourceOptions& from, const Planned& planned,
                                                               const sim::Differences& ranks, Console& console);
  /// Appends it as it was given.
  void add_given(JobOptions& options) const;

 private:
  std::string text_;
  std::shared_ptr<const Workload> workload_;
};

}  // namespace foreshard::cli
