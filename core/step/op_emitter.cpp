#include "core/step/op_emitter.hpp"

#include "core/base/check.hpp"

namespace foreshard {

void OpEmitter::kernel(StreamId on, const KernelWork& work, UnitId unit) {
  if (capturing_) {
    graph_.nodes.push_back({.kind = GraphNode::Kind::kernel, .stream = on, .unit = unit, .kernel = work});
    return;
  }
  const OpId op = device_.launch(on, work);
  recorder_.kernel(op, on, work.kernel_class, work.label, unit);
  count(op, on);
}

void OpEmitter::compute(StreamId on, const KernelWork& work, const BoundKernel& bound, UnitId unit) {
  FORESHARD_CHECK(!capturing_, "kernels with addresses are not captured");
  const OpId op = device_.launch(on, {work, bound.kernel, bound.addresses});
  recorder_.kernel(op, on, work.kernel_class, work.label, unit);
  count(op, on);
}

void OpEmitter::copy(StreamId on, const CopyWork& work, UnitId unit) {
  if (capturing_) {
    graph_.nodes.push_back({.kind = GraphNode::Kind::copy, .stream = on, .unit = unit, .copy = work});
    return;
  }
  const OpId op = device_.copy(on, work);
  recorder_.copy(op, on, work.bytes, work.label, unit);
  count(op, on);
}

void OpEmitter::collective(StreamId on, const CollectiveWork& work, CommunicatorId over, UnitId unit) {
  if (capturing_) {
    graph_.nodes.push_back(
        {.kind = GraphNode::Kind::collective, .stream = on, .unit = unit, .collective = work, .communicator = over});
    return;
  }
  const OpId op = device_.collective(on, over, work);
  recorder_.collective(op, on, work, over, unit);
  count(op, on);
}

EventId OpEmitter::record_event(StreamId on) {
  if (capturing_) {
    graph_.nodes.push_back({.kind = GraphNode::Kind::record, .stream = on, .event = graph_.events});
    return EventId{CapturedGraph::kFirstEvent + graph_.events++};
  }
  const EventId event = device_.record_event(on);
  recorder_.event(EventRecord::Kind::record, event, on);
  return event;
}

void OpEmitter::wait_event(StreamId on, EventId event) {
  if (CapturedGraph::is_of_capture(event) != capturing_) return;  // complete: a capture begins and ends alone
  if (capturing_) {
    graph_.nodes.push_back(
        {.kind = GraphNode::Kind::wait, .stream = on, .event = event.value - CapturedGraph::kFirstEvent});
    return;
  }
  device_.stream_wait_event(on, event);
  recorder_.event(EventRecord::Kind::wait, event, on);
}

void OpEmitter::captured_hook(Hook hook) {
  graph_.nodes.push_back({.kind = GraphNode::Kind::hook, .hook = hook});
}

void OpEmitter::issue(const GraphNode& node, std::vector<EventId>& events) {
  switch (node.kind) {
    case GraphNode::Kind::kernel:
      return kernel(node.stream, node.kernel, node.unit);
    case GraphNode::Kind::copy:
      return copy(node.stream, node.copy, node.unit);
    case GraphNode::Kind::collective:
      return collective(node.stream, node.collective, node.communicator, node.unit);
    case GraphNode::Kind::record:
      events[node.event] = record_event(node.stream);
      return;
    case GraphNode::Kind::wait:
      return wait_event(node.stream, events[node.event]);
    case GraphNode::Kind::hook:
      return;
  }
}

}  // namespace foreshard
