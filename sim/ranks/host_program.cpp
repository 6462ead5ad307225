#include "sim/ranks/host_program.hpp"

#include <utility>

#include "core/base/check.hpp"

namespace foreshard::sim {

HostProgramBuilder::HostProgramBuilder(const DeviceLog& log) {
  out_.communicators = log.communicators();
  out_.table.add_stream();  // the compute stream is there from the beginning
  out_.requests = log.requests();
  out_.request_of.resize(out_.communicators.size());
}

void HostProgramBuilder::add(const DeviceLog& log, std::pair<std::size_t, std::size_t> calls, std::size_t collective) {
  using Kind = HostProgram::Action::Kind;
  std::vector<std::uint32_t>& running_ops = running_ops_[&log];
  running_ops.resize(log.ops().size(), kNoRunningOp);
  for (std::size_t i = calls.first; i < calls.second; ++i) {
    const DeviceLog::Call& call = log.calls()[i];
    const EventId event{static_cast<std::uint32_t>(call.b)};
    switch (call.kind) {
      case DeviceLog::Kind::add_stream:
        out_.table.add_stream();
        break;
      case DeviceLog::Kind::add_communicator:
        out_.table.add_communicator();
        break;
      case DeviceLog::Kind::submit: {
        const OpId id = out_.table.submit(log.ops()[call.a], running_ops[call.a]);
        running_ops[call.a] = out_.table.op(id).running_op;
        if (const CommunicatorId among = log.ops()[call.a].communicator; among.valid() && !log.priced().empty())
          out_.request_of[among.value].push_back(log.priced()[collective++]);
        out_.actions.push_back({Kind::issue, 0, 0});
        break;
      }
      case DeviceLog::Kind::record:
        static_cast<void>(out_.table.record(StreamId{call.a}));
        break;
      case DeviceLog::Kind::wait:
        out_.table.wait(StreamId{call.a}, event);
        break;
      case DeviceLog::Kind::synchronize_event:
        out_.actions.push_back({Kind::wait_event, event.value, 0});
        break;
      case DeviceLog::Kind::synchronize:
        out_.actions.push_back({Kind::wait_all, 0, 0});
        break;
      case DeviceLog::Kind::host_work:
        out_.actions.push_back({Kind::work, 0, call.b});
        break;
      case DeviceLog::Kind::driver_call:
        out_.actions.push_back({Kind::driver_call, 0, call.b});
        break;
      case DeviceLog::Kind::host_now:
        break;
    }
  }
}

void HostProgramBuilder::end_step() {
  out_.step_ends.push_back(OpId{static_cast<std::uint32_t>(out_.table.ops().size() - 1)});
}

HostProgram host_program(const DeviceLog& log, std::vector<OpId> step_ends) {
  FORESHARD_CHECK(!log.depends_on_time(), "a program that looked at the device's time");
  HostProgramBuilder builder(log);
  builder.add(log, {0, log.calls().size()}, 0);
  HostProgram out = std::move(builder).program();
  out.step_ends = std::move(step_ends);
  return out;
}

}  // namespace foreshard::sim
