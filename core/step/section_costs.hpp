// Finds what one of FSDP2's sections costs under settings other than the captured ones (time model 1.1 step 6, 3.5):
// the captured cost of the same unit, else of another unit of equal size; merged where several modules make one unit,
// scaled where the shard group changes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "core/fsdp/fsdp_op.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

class SectionCosts {
 public:
  /// `workload` must outlive this. `wanted` are the settings of the run; its units are the workload's.
  SectionCosts(const Workload& workload, const Settings& wanted);

  /// The cost of a section; a section that no template covers is empty and counted.
  [[nodiscard]] const SectionCost& find(Section section, ParamGroupId group, Pass pass);
  /// Sections that had to do without a template so far.
  [[nodiscard]] std::uint64_t misses() const { return misses_; }

 private:
  using Key = std::tuple<Section, UnitId, std::uint32_t, Pass>;
  [[nodiscard]] const SectionCost* lookup(Section section, ParamGroupId group, Pass pass) const;
  /// The group's own template, that of units alike, or either of the other pass.
  [[nodiscard]] const SectionCost* nearest(Section section, ParamGroupId group, Pass pass) const;
  [[nodiscard]] SectionCost resolve(Section section, ParamGroupId group, Pass pass);
  void add_unrecorded(SectionCost& cost) const;
  void add_reduced_sums(SectionCost& cost) const;
  [[nodiscard]] std::vector<UnitId> alike(UnitId unit) const;

  const Workload& workload_;
  const Settings& wanted_;
  double shard_scale_ = 1;  ///< captured shard ranks / wanted: this rank's shards grow as the group shrinks
  std::map<Key, const SectionCost*> templates_;
  std::map<Key, SectionCost> resolved_;
  std::uint64_t misses_ = 0;
};

}  // namespace foreshard
