#include "sim/engine/op_table.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {

StreamId OpTable::add_stream() {
  streams_.emplace_back();
  return StreamId{static_cast<std::uint32_t>(streams_.size() - 1)};
}

CommunicatorId OpTable::add_communicator() {
  communicators_.emplace_back();
  return CommunicatorId{static_cast<std::uint32_t>(communicators_.size() - 1)};
}

OpId OpTable::submit(const EngineOp& op) {
  FORESHARD_CHECK(op.work.count >= 0 && op.work <= kLongestOp, "an op of more than an hour");
  const std::uint32_t id = static_cast<std::uint32_t>(ops_.size());
  Stream& stream = streams_[op.stream.value];
  Op out;
  out.work = op.work.count << kWorkShift;
  out.waits_for = {static_cast<std::uint32_t>(wait_pool_.size()), static_cast<std::uint32_t>(stream.waits.size())};
  wait_pool_.insert(wait_pool_.end(), stream.waits.begin(), stream.waits.end());
  stream.waits.clear();
  out.stream = op.stream;
  out.place = static_cast<std::uint32_t>(stream.ops.size());
  stream.ops.push_back(id);
  out.communicator = op.communicator;
  if (op.communicator.valid()) {
    std::vector<std::uint32_t>& communicator = communicators_[op.communicator.value];
    out.communicator_place = static_cast<std::uint32_t>(communicator.size());
    communicator.push_back(id);
  }
  out.running_op = pack(op.running_op);
  out.is_copy = op.is_copy;
  out.lengthens_gaps = op.lengthens_gaps;
  out.endless = op.endless;
  out.nothing = op.nothing;
  ops_.push_back(out);
  return OpId{id};
}

/// Keeps one op a stream, the latest: streams are in order, so it ends last.
void OpTable::add_wait(std::vector<std::uint32_t>& waits, std::uint32_t op) const {
  for (std::uint32_t& other : waits) {
    if (ops_[other].stream != ops_[op].stream) continue;
    other = std::max(other, op);
    return;
  }
  waits.push_back(op);
}

EventId OpTable::record(StreamId stream_id) {
  const Stream& stream = streams_[stream_id.value];
  Range range{static_cast<std::uint32_t>(wait_pool_.size()), 0};
  wait_pool_.insert(wait_pool_.end(), stream.waits.begin(), stream.waits.end());
  if (!stream.ops.empty()) wait_pool_.push_back(stream.ops.back());
  range.count = static_cast<std::uint32_t>(wait_pool_.size()) - range.begin;
  events_.push_back(range);
  return EventId{static_cast<std::uint32_t>(events_.size() - 1)};
}

void OpTable::wait(StreamId stream_id, EventId event) {
  FORESHARD_CHECK(event.value < events_.size(), "a wait for an event that was never recorded");
  Stream& stream = streams_[stream_id.value];
  const Range range = events_[event.value];
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const std::uint32_t op = wait_pool_[range.begin + i];
    if (ops_[op].stream != stream_id) add_wait(stream.waits, op);  // a stream waits for itself anyway
  }
}

}  // namespace foreshard::sim
