#include "sim/ranks/host_program.hpp"

#include <utility>

#include "core/base/check.hpp"

namespace foreshard::sim {

HostProgram host_program(const DeviceLog& log, std::vector<OpId> step_ends) {
  FORESHARD_CHECK(!log.depends_on_time(), "a program that looked at the device's time");
  HostProgram out;
  out.communicators = log.communicators();
  out.step_ends = std::move(step_ends);
  out.table.add_stream();  // the compute stream is there from the beginning
  out.requests = log.requests();
  out.request_of.resize(out.communicators.size());
  std::size_t collective = 0;
  using Kind = HostProgram::Action::Kind;
  for (const DeviceLog::Call& call : log.calls()) {
    const EventId event{static_cast<std::uint32_t>(call.b)};
    switch (call.kind) {
      case DeviceLog::Kind::add_stream:
        out.table.add_stream();
        break;
      case DeviceLog::Kind::add_communicator:
        out.table.add_communicator();
        break;
      case DeviceLog::Kind::submit:
        out.table.submit(log.ops()[call.a]);
        if (const CommunicatorId among = log.ops()[call.a].communicator; among.valid() && !log.priced().empty())
          out.request_of[among.value].push_back(log.priced()[collective++]);
        out.actions.push_back({Kind::issue, 0, 0});
        break;
      case DeviceLog::Kind::record:
        static_cast<void>(out.table.record(StreamId{call.a}));
        break;
      case DeviceLog::Kind::wait:
        out.table.wait(StreamId{call.a}, event);
        break;
      case DeviceLog::Kind::synchronize_event:
        out.actions.push_back({Kind::wait_event, event.value, 0});
        break;
      case DeviceLog::Kind::synchronize:
        out.actions.push_back({Kind::wait_all, 0, 0});
        break;
      case DeviceLog::Kind::host_work:
        out.actions.push_back({Kind::work, 0, call.b});
        break;
      case DeviceLog::Kind::host_now:
        break;
    }
  }
  return out;
}

}  // namespace foreshard::sim
