#include "sim/sweep/candidate_list.hpp"

#include <utility>

#include "core/settings/settings_table.hpp"

namespace foreshard::sim {

bool CandidateList::add(std::string reason, std::vector<CauseKind> cures, const std::function<void(Settings&)>& change,
                        std::string pytorch) {
  Candidate candidate;
  candidate.settings = base_;
  change(candidate.settings);
  if (candidate.settings == base_ || !check(candidate.settings)) return false;
  for (const Candidate& other : list_)
    if (other.settings == candidate.settings) return false;
  candidate.setting = setting_text(base_, candidate.settings);
  candidate.reason = std::move(reason);
  candidate.pytorch = std::move(pytorch);
  candidate.cures = std::move(cures);
  list_.push_back(std::move(candidate));
  return true;
}

}  // namespace foreshard::sim
