// Which link is slow: the groups of a job that fit_ranks() found slow or alike, over the links of a machine profile.
//
// A link is to blame where a slower one makes the collectives of every slow group longer, by their price, and those of
// no group that is like the others. By how much it is slower is what that price needs to be so much longer.
//
// Where no group has another one to be held against, what its collectives take alone is held against the profile's
// price. Of collectives from kPricedBytes on the profile says how far such prices are off (/prediction/collectives).
//
// Who: cli's `fit`. Pure; deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/rank_fit.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// One that is slow by as much as the slow groups are, as `plan` is told.
struct SuspectLink {
  bool adapter = false;
  SlowAdapter slow_adapter = {};
  SlowLink slow_link = {};
};

/// What collectives alone take over what the profile says.
struct AgainstProfile {
  FactorRange time;
  double known = 0;                  ///< nine of ten measured ones are within so much of their price, as a logarithm
  std::vector<std::string> outside;  ///< why the profile knows less: one sentence each

  [[nodiscard]] bool differs() const;
};

struct LinkFit {
  /// Those to blame for all slow groups; one: that is it; several: no group tells them apart.
  std::vector<SuspectLink> suspects;
  AgainstProfile against;
};

/// Of a whole buffer: what the error of /prediction/collectives was measured on.
inline constexpr Bytes kPricedBytes = Bytes{64} << 20;

/// `machine`: with the links of a healthy job.
[[nodiscard]] LinkFit fit_links(const Run& run, const RanksFit& fit, const MachineProfile& machine);

}  // namespace foreshard::sim
