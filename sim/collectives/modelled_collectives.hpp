// Prices every collective from the mechanism that would run it, corrected by what the machine measured.
//
// choose_transport() says what runs (core/device), the mechanism's file says how long and with which resources, the
// profile's tables correct it (table_correction.hpp). Any number of ranks, on one node or many. docs/collectives.md has
// formulas, sources and errors. A price that rests on no table of the same transport, ranks and shape carries a caveat.
#pragma once

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/table_correction.hpp"

namespace foreshard::sim {

class ModelledCollectives final : public CollectiveCost {
 public:
  /// `profile` must outlive this object.
  explicit ModelledCollectives(const MachineProfile& profile);

  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override;
  [[nodiscard]] FirstUse first_use(const CollectiveRequest& request) const override;

 private:
  [[nodiscard]] CollectivePrice price_on(const MachineProfile& machine, const CollectiveRequest& request) const;

  const MachineProfile& profile_;
  TableCorrection correction_;
};

}  // namespace foreshard::sim
