// A profile while it is fitted: what its file will say, until it is read and written once.
// Used by fit_machine.cpp and probe_fit.cpp alone.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/calibrate/fit_machine.hpp"

namespace foreshard::sim {

struct ProfileDraft {
  MachineProfile machine;   ///< the base with the constants that were fitted, for what is fitted next
  nlohmann::json document;  ///< what the file says, constants of /… as {"value", "unit", "source"}
  MachineFit fit;           ///< its constants, residuals and notes; machine and json come with finish()
};

/// What the measurements determine. Errors as fit_machine().
[[nodiscard]] Result<ProfileDraft> draft_profile(std::span<const Measurements> inputs, const FitRequest& request);

/// Writes the document and reads the profile that it is. Refused (input): a constant beyond what its unit can mean.
[[nodiscard]] Result<MachineFit> finish(ProfileDraft draft, const std::string& name);

}  // namespace foreshard::sim
