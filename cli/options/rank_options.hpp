// Ranks, adapters and links that are unlike the others, as options of `plan`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options/option_set.hpp"
#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "sim/predict/rank_difference.hpp"

namespace foreshard::cli {

class RankOptions {
 public:
  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);

  /// Ranks in order, each once; adapters and links as they were given. Ranks' own sources are read as `from` says of
  /// the plan's, at the settings of `planned`; their workloads live as long as this.
  [[nodiscard]] Result<sim::Differences> read(const SourceOptions& from, const Planned& planned, Console& console);

 private:
  std::vector<std::string> slow_gpu_;
  std::vector<std::string> slow_host_;
  std::vector<std::string> slow_adapter_;
  std::vector<std::string> slow_link_;
  std::vector<std::string> source_;
  std::vector<std::shared_ptr<const Workload>> workloads_;
};

}  // namespace foreshard::cli
