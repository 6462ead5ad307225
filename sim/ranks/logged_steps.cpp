#include "sim/ranks/logged_steps.hpp"

#include <map>
#include <utility>

#include "core/base/check.hpp"

namespace foreshard::sim {

StepLog::StepLog(DeviceLog log, const std::vector<OpId>& step_ends) : log_(std::move(log)) {
  FORESHARD_CHECK(!log_.depends_on_time(), "a program that looked at the device's time");
  Step at;
  steps_.push_back(at);
  std::uint32_t ops = 0;
  for (const DeviceLog::Call& call : log_.calls()) {
    ++at.calls;
    if (call.kind == DeviceLog::Kind::record) ++at.events;
    if (call.kind == DeviceLog::Kind::add_stream) ++at.streams;
    if (call.kind != DeviceLog::Kind::submit) continue;
    if (log_.ops()[call.a].communicator.valid()) ++at.collectives;
    if (steps_.size() <= step_ends.size() && ops++ == step_ends[steps_.size() - 1].value) steps_.push_back(at);
  }
  FORESHARD_CHECK(steps_.size() == step_ends.size() + 1, "each step ends with an op");
}

bool StepLog::same_form(const StepLog& other) const {
  if (steps_.size() != other.steps_.size() || log_.requests() != other.log_.requests()) return false;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].collectives != other.steps_[i].collectives || steps_[i].events != other.steps_[i].events ||
        steps_[i].streams != other.steps_[i].streams)
      return false;
  for (std::size_t i = 0; i < log_.priced().size() && i < steps_.back().collectives; ++i)
    if (log_.priced()[i] != other.log_.priced()[i]) return false;
  return true;
}

HostProgram program_of_steps(const std::vector<const StepLog*>& by_step) {
  const StepLog& first = *by_step[0];
  HostProgramBuilder out(first.log_);
  for (std::size_t step = 0; step < by_step.size(); ++step) {
    const StepLog& log = *by_step[step];
    FORESHARD_CHECK(log.steps() == by_step.size(), "as many steps as are put together");
    FORESHARD_CHECK(log.steps_[step].events == first.steps_[step].events, "steps of one form");
    out.add(log.log_, {log.steps_[step].calls, log.steps_[step + 1].calls}, log.steps_[step].collectives);
    out.end_step();
  }
  return std::move(out).program();
}

}  // namespace foreshard::sim
