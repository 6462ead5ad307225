#include "core/step/op_emitter.hpp"

#include <algorithm>
#include <utility>

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
  if (capturing_) {
    graph_.nodes.push_back({.kind = GraphNode::Kind::kernel,
                            .stream = on,
                            .unit = unit,
                            .kernel = work,
                            .computes = CapturedKernel{*bound.kernel, bound.addresses}});
    return;
  }
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

void OpEmitter::begin_section(const SectionCost& section, const std::string& unit) {
  if (!capturing_) return;
  GraphNode node;
  node.kind = GraphNode::Kind::section_begin;
  node.section = &section;
  node.section_of = &unit;
  graph_.nodes.push_back(std::move(node));
}

void OpEmitter::end_section() {
  if (!capturing_) return;
  const auto begin = std::find_if(graph_.nodes.rbegin(), graph_.nodes.rend(),
                                  [](const GraphNode& node) { return node.kind == GraphNode::Kind::section_begin; });
  FORESHARD_CHECK(begin != graph_.nodes.rend(), "a section ends that did not begin");
  GraphNode node = *begin;
  node.kind = GraphNode::Kind::section_end;
  graph_.nodes.push_back(std::move(node));
}

/// A little apart from the nodes beside it, so that times tell which of them lie inside.
void OpEmitter::mark(const GraphNode& node) {
  constexpr Nanoseconds kApart{2};
  device_.host_work(kApart);
  if (node.kind == GraphNode::Kind::section_begin) section_start_ = recorder_.now();
  if (node.kind == GraphNode::Kind::section_end) recorder_.section(*node.section, *node.section_of, section_start_);
}

void OpEmitter::issue(const GraphNode& node, std::vector<EventId>& events) {
  switch (node.kind) {
    case GraphNode::Kind::kernel:
      if (!node.computes) return kernel(node.stream, node.kernel, node.unit);
      return compute(node.stream, node.kernel, {&node.computes->kernel, node.computes->addresses}, node.unit);
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
    case GraphNode::Kind::section_begin:
    case GraphNode::Kind::section_end:
      return;
  }
}

}  // namespace foreshard
