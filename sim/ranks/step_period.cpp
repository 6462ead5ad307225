#include "sim/ranks/step_period.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace foreshard::sim {
namespace {

bool same_ids(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> others, std::uint32_t shift) {
  return std::equal(ids.begin(), ids.end(), others.begin(), others.end(),
                    [shift](std::uint32_t a, std::uint32_t b) { return b - a == shift; });
}

}  // namespace

StepPeriod::StepPeriod(const HostProgram& program, const HostSchedule& schedule)
    : program_(program), schedule_(schedule) {
  const std::vector<HostSchedule::Act>& acts = schedule.acts();
  for (std::size_t i = 0; i < acts.size(); ++i)
    if (acts[i].kind == HostProgram::Action::Kind::issue) act_of_.push_back(i);
  find_cuts();
  for (std::size_t step = 0; step + 1 < program.step_ends.size(); ++step) tails_.push_back(tail(step));
}

void StepPeriod::find_cuts() {
  constexpr std::size_t kFirstPart = 4;  // a quarter
  const std::vector<std::uint32_t>& compute = program_.table.stream_ops(kComputeStream.value);
  std::size_t begin = 0;
  for (const OpId end : program_.step_ends) {
    const std::size_t next = program_.table.op(end).place + std::size_t{1};
    for (std::size_t i = 1; i <= kCuts; ++i) {
      const std::size_t place = std::max(begin + (next - begin) * i / (kFirstPart * kCuts), begin + 1) - 1;
      cuts_.push_back({OpId{compute[place]}, act_of_[compute[place]] + 1});
    }
    begin = next;
  }
}

bool StepPeriod::same_op(std::uint32_t op, std::uint32_t ops) const {
  const OpTable& table = program_.table;
  const OpTable::Op& one = table.op(OpId{op});
  const OpTable::Op& other = table.op(OpId{op + ops});
  const auto marks = [](const OpTable::Op& of) {
    return std::array{of.needs_sms,      of.persistent, of.side,    of.is_copy,
                      of.lengthens_gaps, of.endless,    of.nothing, of.of_graph};
  };
  return one.work == other.work && one.stream == other.stream && one.communicator == other.communicator &&
         one.running_op == other.running_op && marks(one) == marks(other) &&
         same_ids(table.awaited(one.waits_for), table.awaited(other.waits_for), ops);
}

bool StepPeriod::same_act(std::size_t act, std::size_t shift, std::uint32_t ops) const {
  const HostSchedule::Act& one = schedule_.acts()[act];
  const HostSchedule::Act& other = schedule_.acts()[act + shift];
  if (one.kind != other.kind || one.work != other.work || one.stream != other.stream || one.of_graph != other.of_graph)
    return false;
  const OpTable& table = program_.table;
  return one.kind != HostProgram::Action::Kind::wait_event ||
         same_ids(table.awaited(EventId{one.event}), table.awaited(EventId{other.event}), ops);
}

/// From its end back, as far as it goes with the next one.
StepPeriod::Tail StepPeriod::tail(std::size_t step) const {
  const std::uint32_t ops = first_op(step + 2) - first_op(step + 1);
  const std::size_t shift = first_act(step + 2) - first_act(step + 1);
  Tail out{OpId{first_op(step + 1)}, first_act(step + 1)};
  while (out.op.value > first_op(step) && same_op(out.op.value - 1, ops)) --out.op.value;
  while (out.act > first_act(step) && same_act(out.act - 1, shift, ops)) --out.act;
  out.whole = out.op.value == first_op(step) && out.act == first_act(step) &&
              ops == first_op(step + 1) - first_op(step) && shift == first_act(step + 1) - first_act(step);
  return out;
}

bool StepPeriod::alike(std::size_t from, std::size_t last) const {
  const std::size_t first = from / kCuts;
  if (last >= tails_.size() || tails_[first].op.value > cuts_[from].op.value + 1 ||
      tails_[first].act > cuts_[from].acts)
    return false;
  return std::all_of(tails_.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                     tails_.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                     [](const Tail& tail) { return tail.whole; });
}

}  // namespace foreshard::sim
