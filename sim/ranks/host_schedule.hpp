// A host program as its ranks go through it: what it does, each with the host work before it added up.
//
// Who: sim/ranks/job.cpp makes one for each program; its ranks share it, on any thread. Constant once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/ranks/host_program.hpp"

namespace foreshard::sim {

class HostSchedule {
 public:
  /// What a host does once it has worked for a while. Never HostProgram::Action::Kind::work or driver_call.
  struct Act {
    std::int64_t work = 0;     ///< ns before it, of a host of the job's speed; each piece rounded for itself
    std::uint32_t action = 0;  ///< of the program; the pieces lie between the action before and this one
    std::uint32_t event = 0;   ///< to wait for
    StreamId stream;           ///< that it issues to
    HostProgram::Action::Kind kind = HostProgram::Action::Kind::issue;
    bool of_graph = false;  ///< what it issues is a node of a CUDA graph, which finds no launch queue full
  };

  /// `program` must outlive it. `host_scale`: of the job.
  HostSchedule(const HostProgram& program, double host_scale);

  [[nodiscard]] const std::vector<Act>& acts() const { return acts_; }
  /// How many of them a host does that dies in this step: those up to the last compute op of the step before.
  [[nodiscard]] std::size_t acts_before(std::uint32_t step) const;

 private:
  const HostProgram& program_;
  std::vector<Act> acts_;
};

}  // namespace foreshard::sim
