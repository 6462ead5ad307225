// Ranks, adapters and links that are always unlike the others, as options of `plan` and of `sweep`, each of whose
// points is then that job.
#pragma once

#include <string>
#include <vector>

#include "cli/options/link_options.hpp"
#include "cli/options/option_set.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/predict/rank_difference.hpp"

namespace foreshard::cli {

class UnlikeOptions {
 public:
  /// Adds --slow-gpu, --slow-host, --rank-gemm and LinkOptions'. `this` must outlive the parsing.
  void add_to(OptionSet& set);

  /// Of a machine with this network: ranks in order, each once; adapters and links as they were given. Errors (usage):
  /// what is no rank, factor or product, one that is said twice, and LinkOptions'. Whether a job has them, its plan
  /// says.
  [[nodiscard]] Result<sim::Differences> read(const sim::Network& network) const;

  /// As they were given.
  [[nodiscard]] JobOptions given() const;

 private:
  std::vector<std::string> slow_gpu_;
  std::vector<std::string> slow_host_;
  std::vector<std::string> rank_gemm_;
  LinkOptions links_;
};

}  // namespace foreshard::cli
