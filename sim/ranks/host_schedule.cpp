#include "sim/ranks/host_schedule.hpp"

namespace foreshard::sim {

HostSchedule::HostSchedule(const HostProgram& program, double host_scale) : program_(program) {
  using Kind = HostProgram::Action::Kind;
  std::int64_t work = 0;
  std::uint32_t issued = 0;
  for (std::uint32_t i = 0; i < program.actions.size(); ++i) {
    const HostProgram::Action& action = program.actions[i];
    if (action.kind == Kind::work || action.kind == Kind::driver_call) {
      const bool scaled = host_scale == 0 || (action.kind == Kind::work && host_scale != 1);
      work += scaled ? Nanoseconds{action.ns}.scaled(host_scale).count : action.ns;
      continue;
    }
    acts_.push_back({work, i, action.event, {}, action.kind});
    if (action.kind == Kind::issue) {
      const OpTable::Op& op = program.table.op(OpId{issued++});
      acts_.back().stream = op.stream;
      acts_.back().of_graph = op.of_graph;
    }
    work = 0;
  }
}

std::size_t HostSchedule::acts_before(std::uint32_t step) const {
  if (step == 0) return 0;
  if (step > program_.step_ends.size()) return acts_.size();
  std::uint32_t to_issue = program_.step_ends[step - 1].value + 1;
  std::size_t end = 0;
  while (to_issue > 0)
    if (acts_[end++].kind == HostProgram::Action::Kind::issue) --to_issue;
  return end;
}

}  // namespace foreshard::sim
