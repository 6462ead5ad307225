// A phase's name for people: of what lies between phases there is none.
//
// Who: every report that names phases. Pure.
#pragma once

#include <string>

namespace foreshard {

/// PhaseRecord::name of the optimizer's step.
inline constexpr const char* kOptimizerPhase = "optimizer";

/// "backward"; "between phases" where it is empty.
[[nodiscard]] inline std::string phase_title(const std::string& phase) {
  return phase.empty() ? "between phases" : phase;
}

/// "in backward"; "between phases".
[[nodiscard]] inline std::string in_phase(const std::string& phase) {
  return phase.empty() ? phase_title(phase) : "in " + phase;
}

}  // namespace foreshard
