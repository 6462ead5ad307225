// Fits of made-up measurements, and the profiles that come of them.
#pragma once

#include <span>

#include "sim/calibrate/fit_machine.hpp"
#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {

inline MachineFit fit_of(Measurements measured, const FitRequest& request) {
  measured.path = "made up";
  auto fit = fit_machine(std::span(&measured, 1), request);
  if (!fit) FAIL(fit.error().text());
  return *fit;
}

/// The profile as its file is read.
inline MachineProfile read(const MachineFit& fit) {
  auto profile = parse_profile(fit.json, "mine");
  if (!profile) FAIL(profile.error().text());
  return *profile;
}

}  // namespace foreshard::sim
