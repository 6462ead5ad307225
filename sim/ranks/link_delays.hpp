// How much longer collectives take than in groups with healthy links: what a job's programs differ in as prices.
//
// Who: sim/ranks/job.cpp, for the Delays behind a collective. Constant once built.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/delays.hpp"
#include "sim/ranks/host_program.hpp"

namespace foreshard::sim {

class LinkDelays {
 public:
  /// Of no program: nothing is asked.
  LinkDelays() = default;
  /// They must outlive it.
  explicit LinkDelays(const std::vector<const HostProgram*>& programs);

  /// Whether all programs run the same kernels.
  [[nodiscard]] bool same_kernels() const { return same_kernels_; }
  /// Adds what a collective takes longer in this program than in the first that runs the same kernels.
  void add(std::uint32_t program, OpId collective, Delays& delays) const;

 private:
  std::vector<const HostProgram*> programs_;
  std::vector<std::uint32_t> references_;  // by program
  bool same_kernels_ = true;
};

}  // namespace foreshard::sim
