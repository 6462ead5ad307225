// The programs of ranks that are unlike the others, as a plan needs them.
//
// Who: predict.cpp. Deterministic.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/rank_difference.hpp"

namespace foreshard::sim {

/// What makes ranks differ, each rank's workload adapted to the plan.
struct AdaptedRanks {
  using Key = std::pair<const Workload*, std::optional<ExtraGemms>>;  ///< looked up, never gone through

  Differences differences;  ///< its workloads are among these:
  std::map<Key, Workload> workloads;
  Nanoseconds gemms;  ///< what the extra products of a step take alone on the GPU, of the rank that has most
};

/// Fills `out`, whose address must not change as long as its differences are used. `adapted`: what ranks without a
/// source of their own run. Warnings of the ranks' sources go to `p`. Fails (usage) where a program of which ranks have
/// another one, or extra products, has no times or cannot have these.
[[nodiscard]] Result<void> adapt_ranks(const Workload& adapted, const PredictRequest& request,
                                       const MachineProfile& machine, AdaptedRanks& out, Prediction& p);

/// `source`, a model at `seq` tokens a sample, as the plan needs it. What makes it less certain goes to `p`.
[[nodiscard]] Result<Workload> adapted_to_length(const Workload& source, std::uint32_t seq,
                                                 const PredictRequest& request, const MachineProfile& machine,
                                                 Prediction& p);

/// What the groups of ranks run instead of the others' program: RankGroup::own_program and the like.
void name_programs(const std::vector<RankDifference>& asked, std::vector<RankGroup>& groups);

/// Where ranks have lengths of their own: tokens and MFU, which `p` has as if all had the job's, in the mean of them.
void count_lengths(const PredictRequest& request, const MachineProfile& machine, const AdaptedRanks& ranks,
                   Prediction& p);

/// Of a recording: the extra products are the machine profile's times.
void judge_gemms(const PredictionSpec& spec, const Workload& workload, Nanoseconds gemms, Prediction& p);

}  // namespace foreshard::sim
