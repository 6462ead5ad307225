// What one rank's host does in a job, read off a simulation's log: ops to issue, time to spend, what to wait for.
//
// Who: sim/ranks/rank.hpp plays it, any number of ranks one program. Built once; then constant, so that threads may
// share it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/device_log.hpp"
#include "sim/engine/op_table.hpp"

namespace foreshard::sim {

struct HostProgram {
  struct Action {
    enum class Kind : std::uint8_t {
      work,         ///< ns: host time, before it is scaled
      driver_call,  ///< ns: host time of every host alike, but one that costs nothing (a scale of 0)
      issue,        ///< the table's next op
      wait_event,   ///< event: until it is complete
      wait_all,     ///< until every op so far has ended
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

/// Adds calls of logs, one behind the other, to a program: of one, or of several whose streams, communicators, events
/// and requests have the same numbers.
class HostProgramBuilder {
 public:
  /// With the communicators and the requests of `log`.
  explicit HostProgramBuilder(const DeviceLog& log);
  /// Its calls from the first on, up to the second, of which the collectives are from `collective` on.
  void add(const DeviceLog& log, std::pair<std::size_t, std::size_t> calls, std::size_t collective);
  /// A step ends with the op that was added last.
  void end_step();
  [[nodiscard]] HostProgram program() && { return std::move(out_); }

 private:
  HostProgram out_;
  std::map<const DeviceLog*, std::vector<std::uint32_t>> running_ops_;  // by op of a log: its place; looked up alone
};

/// Aborts where `log` depends on time. `step_ends`: ops as the logged device counted them.
[[nodiscard]] HostProgram host_program(const DeviceLog& log, std::vector<OpId> step_ends);

}  // namespace foreshard::sim
