// The first lines of plan's answer: whether it fits, how fast it is, what limits it, and what makes that doubtful.
//
// Who: prediction_report. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options/planning.hpp"
#include "cli/reports/plan_tables.hpp"
#include "sim/predict/bound_by.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/remedies.hpp"
#include "sim/sweep/upgrade.hpp"

namespace foreshard::cli {

/// What asked for the memory that was not there.
struct FailedPlace {
  std::int32_t step = -1;
  std::string phase;  ///< "backward"; empty: outside every phase
  std::string of;     ///< module, unit or parameter; may be empty
  std::string op;     ///< "aten::mm", "FSDP::all_gather"; may be empty
};

/// Of a prediction that ran out of memory: its last request.
[[nodiscard]] FailedPlace failed_place(const Run& run);

/// "step 1, backward, layers.14 (aten::mm)".
[[nodiscard]] std::string text_of(const FailedPlace& place);

/// Prediction::bound_by(): "gpu", "links", "host" or "ranks". In words: "GPU-bound", "link-bound", "host-bound", "41.35
/// ms (14.9 %) longer because of rank 5's GPU", of a step (slower_ranks()).
[[nodiscard]] std::string_view bound_name(const sim::Prediction& p);
[[nodiscard]] std::string bound_word(const sim::Prediction& p);
/// The same words of these ranks; of a cycle they are of its mean step.
[[nodiscard]] std::string slower_words(const sim::Prediction& p, const sim::SlowerRanks& slower);

/// Of a plan that runs and has no step time: why. Else empty.
[[nodiscard]] std::string step_time_unknown(const sim::Prediction& p);

/// "tokens/s/GPU", or "samples/s/GPU" of a model without a sequence.
[[nodiscard]] std::string_view rate_unit(const Settings& settings);

/// How ranks differ, as many groups of them as a line has room for: "rank 5: kernels × 1.2"; empty: all are alike.
[[nodiscard]] std::string rank_differences(const sim::Prediction& p);

/// Of a plan with expert parallelism: whose memory and times these are, and what its exchanges cost.
[[nodiscard]] std::string experts_line(const sim::Prediction& p);

/// What that costs, of a plan that has a time and whose ranks differ.
[[nodiscard]] std::string ranks_line(const sim::Prediction& p);

/// Bytes that the caching allocator could take beyond the peak of reserved memory; 0 where it ran out of memory.
[[nodiscard]] Bytes free_at_peak(const sim::Prediction& p);

/// The first of what fits, in one line, or that none of what was tried does. `said`: reasons why it is not valid that
/// stand elsewhere; `alike`: its time is that of ranks that are alike, and the job's are not.
[[nodiscard]] std::string fitting_words(const sim::Remedies& remedies, const std::vector<std::string>& said,
                                        bool alike);

/// What a plan starts from.
struct PlanBasis {
  const Settings* source =
      nullptr;  ///< its own settings, of which a recording's plan is said to differ; null: not said
  const sim::Upgrade* upgrade = nullptr;  ///< of a recording that is planned under another PyTorch version
  bool machine_assumed = false;           ///< nobody has said which machine it is (source_options.hpp)
  std::string no_upgrade = {};            ///< why there is none of such a recording; empty: there is, or it is not such
  std::string model_options = {};         ///< traces::Source::model_options
  std::vector<std::string> left_out = {};  ///< traces::left_out() of the source
  std::string fabric = {};                 ///< fabric_of() of the source
  std::string network = {};                ///< what a node is linked by: "8 adapters of 50 GB/s each"
  Topology topology = {};                  ///< that is on the machine
  JobOptions job_options = {};             ///< what the verb was given of them
};

/// Of every verb that plans: of what was read, and of a search's source. `source` and `planned` must outlive it.
[[nodiscard]] PlanBasis basis_of(const Planned& planned);
[[nodiscard]] PlanBasis basis_of(const traces::Source& source, bool machine_assumed, const std::string& fabric,
                                 const Topology& topology, const JobOptions& job_options = {});

/// Whether a job that does not hang fits, and of one whose ranks draw lengths, and that does not, what would fit.
[[nodiscard]] std::vector<std::string> memory_lines(const sim::Prediction& p, bool machine_assumed);

/// One line each, without an end of line. The first says whether it fits, the second how fast it is, or that this is
/// not known, then one for each reason why it is not valid. `fitting`: what would fit, where it does not: the best of
/// it is the second line. `time`: plan_time() of `p`.
[[nodiscard]] std::vector<std::string> answer_lines(const sim::Prediction& p, const PlanBasis& basis,
                                                    const PlanTime& time, const sim::Remedies* fitting = nullptr);

}  // namespace foreshard::cli
