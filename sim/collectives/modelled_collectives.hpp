// Prices every collective from the mechanism that would run it, corrected by what the machine measured.
//
// choose_transport() says what runs (core/device), the mechanism's file says how long and with which resources, the
// profile's tables correct it (table_correction.hpp). Any number of ranks, on one node or many. docs/collectives.md has
// formulas, sources and errors. NCCL's tuner sees no degraded NVLink (Links::slow_links): it chooses as if all were
// well, and what it chose takes longer, so that a slow link is never faster. A price that rests on no table of the same
// transport, ranks and shape carries a caveat; where the profile has such a table held out, the caveat says how far its
// points are from their prices.
#pragma once

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/table_correction.hpp"

namespace foreshard::sim {

class ModelledCollectives final : public CollectiveCost {
 public:
  /// `profile` must outlive this object.
  explicit ModelledCollectives(const MachineProfile& profile) : ModelledCollectives(profile, profile) {}

  /// NCCL chooses algorithm and protocol as on `seen` and takes as long as on `profile`: what the same choice would
  /// take on an altered machine. Both must outlive this object.
  ModelledCollectives(const MachineProfile& profile, const MachineProfile& seen);

  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override;
  [[nodiscard]] FirstUse first_use(const CollectiveRequest& request) const override;

 private:
  /// Measured ones of a price's kind, transport and ranks, that it does not rest on.
  struct HeldOut {
    std::size_t points = 0;
    Bytes least = 0, most = 0;
    double worst = 0;  ///< the farthest of their prices from what was measured, a logarithm
  };

  [[nodiscard]] CollectivePrice price_on(const MachineProfile& machine, const CollectiveRequest& request) const;
  [[nodiscard]] HeldOut held_out(const CollectiveRequest& request, Transport ran) const;

  const MachineProfile& profile_;
  const MachineProfile& seen_;
  TableCorrection correction_;
};

}  // namespace foreshard::sim
