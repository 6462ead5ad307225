// Candidates as they are collected: each a change of one run's settings. Internal to sim/sweep.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/candidates.hpp"

namespace foreshard::sim {

class CandidateList {
 public:
  explicit CandidateList(const Settings& base) : base_(base) {}

  /// Nothing where the change is none, contradicts itself, or was tried already; then false. `pytorch`: see Candidate.
  bool add(std::string reason, std::vector<CauseKind> cures, const std::function<void(Settings&)>& change,
           std::string pytorch = {});
  [[nodiscard]] std::vector<Candidate> take() { return std::move(list_); }

 private:
  const Settings& base_;
  std::vector<Candidate> list_;
};

}  // namespace foreshard::sim
