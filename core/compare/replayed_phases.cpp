#include "core/compare/replayed_phases.hpp"

#include <algorithm>

#include "core/run/graph_replay.hpp"

namespace foreshard {
namespace {

/// Whether the step that is compared is a replay whose passes are one phase.
bool is_replay(const Run& run, const WantedStep& wanted) {
  const StepRecord* timed = timed_step(run, wanted);
  const auto step = timed != nullptr ? std::optional(*timed) : memory_step(run, wanted);
  return step && std::any_of(run.phases.begin(), run.phases.end(), [&](const PhaseRecord& phase) {
           return phase.recording == step->recording && phase.step == step->index && phase.name == kGraphReplay;
         });
}

}  // namespace

std::optional<Run> as_replayed(const Run& run, const WantedStep& step, const Run& other, const WantedStep& other_step) {
  if (!is_replay(other, other_step) || is_replay(run, step)) return std::nullopt;
  Run out = run;
  for (PhaseRecord& phase : out.phases)
    if (phase.name == "forward" || phase.name == "backward") phase.name = kGraphReplay;
  return out;
}

}  // namespace foreshard
