#include "tests/gpu/collectives/plan_simulation.hpp"

#include <algorithm>
#include <map>

namespace foreshard::gpu {

PlanSimulation::Stream& PlanSimulation::main_of(std::uint32_t rank) {
  while (streams_.size() < ranks) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->rank = static_cast<std::uint32_t>(streams_.size() - 1);
  }
  return *streams_[rank];
}

void PlanSimulation::add_own(std::uint32_t rank, std::function<bool(PlanSimulation&)> step) {
  main_of(rank).steps.push_back({{}, std::move(step)});
}

void PlanSimulation::add_concurrent(std::uint32_t rank, std::vector<std::function<bool(PlanSimulation&)>> steps) {
  main_of(rank);
  auto stream = std::make_unique<Stream>();
  stream->rank = rank;
  for (auto& step : steps) stream->steps.push_back({{}, std::move(step)});
  streams_.push_back(std::move(stream));
}

void PlanSimulation::add(std::uint32_t rank, const TransferPlan& plan) {
  Stream& main = main_of(rank);
  const auto forked = std::make_shared<bool>(false);
  const auto ended = std::make_shared<std::uint32_t>(0);
  const auto marks = std::make_shared<std::map<std::uint32_t, std::uint64_t>>();  // times reached
  std::map<std::uint32_t, std::uint64_t> made;                                    // times put on a stream so far
  for (const TransferOp& op : plan.before) main.steps.push_back({op, {}});
  std::vector<Stream*> lanes{&main};
  for (std::uint32_t lane = 1; lane < plan.lanes; ++lane) {
    auto stream = std::make_unique<Stream>();
    stream->rank = rank;
    stream->steps.push_back({{}, [forked](PlanSimulation&) { return *forked; }});
    lanes.push_back(stream.get());
    streams_.push_back(std::move(stream));
  }
  main.steps.push_back({{}, [forked](PlanSimulation&) { return *forked = true; }});
  for (const TransferOp& op : plan.body) {
    Stream& stream = *lanes[op.lane];
    if (op.kind == TransferOp::Kind::mark) {
      ++made[op.slot];
      stream.steps.push_back({{}, [marks, op](PlanSimulation&) { return ++(*marks)[op.slot] != 0; }});
    } else if (op.kind == TransferOp::Kind::follow) {
      const std::uint64_t wanted = made[op.slot];
      stream.steps.push_back({{}, [marks, op, wanted](PlanSimulation&) { return (*marks)[op.slot] >= wanted; }});
    } else {
      stream.steps.push_back({op, {}});
    }
  }
  for (std::uint32_t lane = 1; lane < plan.lanes; ++lane)
    lanes[lane]->steps.push_back({{}, [ended](PlanSimulation&) { return ++*ended != 0; }});
  const std::uint32_t others = plan.lanes - 1;
  main.steps.push_back({{}, [ended, others](PlanSimulation&) { return *ended == others; }});
  for (const TransferOp& op : plan.after) main.steps.push_back({op, {}});
}

bool PlanSimulation::execute(Stream& stream) {
  const Step& step = stream.steps[stream.next];
  if (step.own) return step.own(*this);
  const TransferOp& op = step.op;
  if (op.kind == TransferOp::Kind::wait)
    return reached(flag(op.there ? op.peer : stream.rank, op.flag, op.peer, op.slot), op.value);
  if (op.kind == TransferOp::Kind::write) {
    set_flag(op.peer, op.flag, stream.rank, op.slot, op.value);
    return true;
  }
  const Memory& from = memory(op.from);
  Memory& to = memory(op.to);
  if (op.from.offset + op.bytes > from.size() || op.to.offset + op.bytes > to.size()) {
    wrong.push_back("a copy out of bounds");
    return true;
  }
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(op.from.offset), op.bytes,
              to.begin() + static_cast<std::ptrdiff_t>(op.to.offset));
  return true;
}

std::string PlanSimulation::run() {
  while (true) {
    std::vector<Stream*> open;
    for (const auto& stream : streams_)
      if (stream->next < stream->steps.size()) open.push_back(stream.get());
    if (open.empty()) return {};
    std::shuffle(open.begin(), open.end(), random_);
    bool any = false;
    for (Stream* stream : open) {
      // A stream may run on for a while before another gets its turn.
      for (std::uint64_t burst = 1 + random_() % 5; burst != 0 && stream->next < stream->steps.size(); --burst) {
        if (!execute(*stream)) break;
        ++stream->next;
        any = true;
      }
    }
    if (!any) return "stuck: " + std::to_string(open.size()) + " streams wait for each other";
  }
}

}  // namespace foreshard::gpu
