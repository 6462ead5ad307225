// What one rank's host does in a job, read off a simulation's log: ops to issue, time to spend, what to wait for.
//
// Who: sim/ranks/rank.hpp plays it, any number of ranks one program. Built once; then constant, so that threads may
// share it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/device_log.hpp"
#include "sim/engine/op_table.hpp"

namespace foreshard::sim {

struct HostProgram {
  struct Action {
    enum class Kind : std::uint8_t {
      work,        ///< ns: host time, before it is scaled
      issue,       ///< the table's next op
      wait_event,  ///< event: until it is complete
      wait_all,    ///< until every op so far has ended
    };
    Kind kind = Kind::issue;
    std::uint32_t event = 0;
    std::int64_t ns = 0;
  };

  OpTable table;
  std::vector<Action> actions;
  std::vector<CommunicatorOptions> communicators;
  std::vector<CollectiveRequest> requests;             ///< distinct ones
  std::vector<std::vector<std::uint32_t>> request_of;  ///< by communicator, by place among its collectives
  std::vector<OpId> step_ends;                         ///< by step: its last op on the compute stream
};

/// Aborts where `log` depends on time. `step_ends`: ops as the logged device counted them.
[[nodiscard]] HostProgram host_program(const DeviceLog& log, std::vector<OpId> step_ends);

}  // namespace foreshard::sim
