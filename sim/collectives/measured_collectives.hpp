// Prices collectives from a profile's tables of times measured alone.
//
// By size: linear between two measured sizes, the last slope beyond the largest, constant below the
// smallest. Measured points come out exactly. By ranks: the table of the nearest world, times the ratio of
// (n−1)/n (nccl-tests' bus bandwidth stays; docs/model.md says where that holds). Whatever is not read off
// a table of the same transport and ranks carries a caveat.
#pragma once

#include <array>

#include "sim/collectives/collective_cost.hpp"

namespace foreshard::sim {

class MeasuredCollectives final : public CollectiveCost {
 public:
  /// `profile` must outlive this object.
  explicit MeasuredCollectives(const MachineProfile& profile) : profile_(profile) {}

  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override;
  [[nodiscard]] std::string_view description() const override {
    return "times measured alone on this machine, linear in bytes between measured sizes";
  }

 private:
  [[nodiscard]] const CollectiveTable* nearest_world(CollectiveKind kind, Transport transport,
                                                     std::uint32_t ranks) const;
  [[nodiscard]] CollectivePrice from_tables(const CollectiveRequest& request) const;
  [[nodiscard]] CollectivePrice all_reduce(const CollectiveRequest& request) const;

  const MachineProfile& profile_;
};

/// The time at `bytes` of one table by the rule above.
[[nodiscard]] Nanoseconds interpolate(const CollectiveTable& table, Bytes bytes);

}  // namespace foreshard::sim
