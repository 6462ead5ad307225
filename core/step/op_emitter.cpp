#include "core/step/op_emitter.hpp"

namespace foreshard {

void OpEmitter::kernel(StreamId on, const KernelWork& work, UnitId unit) {
  const OpId op = device_.launch(on, work);
  recorder_.kernel(op, on, work.kernel_class, work.label, unit);
  count(op, on);
}

void OpEmitter::compute(StreamId on, const KernelWork& work, const BoundKernel& bound, UnitId unit) {
  const OpId op = device_.launch(on, {work, bound.kernel, bound.addresses});
  recorder_.kernel(op, on, work.kernel_class, work.label, unit);
  count(op, on);
}

void OpEmitter::copy(StreamId on, const CopyWork& work, UnitId unit) {
  const OpId op = device_.copy(on, work);
  recorder_.copy(op, on, work.bytes, work.label, unit);
  count(op, on);
}

void OpEmitter::collective(StreamId on, const CollectiveWork& work, CommunicatorId over, UnitId unit) {
  const OpId op = device_.collective(on, over, work);
  recorder_.collective(op, on, work, over, unit);
  count(op, on);
}

EventId OpEmitter::record_event(StreamId on) {
  const EventId event = device_.record_event(on);
  recorder_.event(EventRecord::Kind::record, event, on);
  return event;
}

void OpEmitter::wait_event(StreamId on, EventId event) {
  device_.stream_wait_event(on, event);
  recorder_.event(EventRecord::Kind::wait, event, on);
}

}  // namespace foreshard
