#include "sim/engine/op_table.hpp"

#include <algorithm>
#include <bit>

#include "core/base/check.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

/// Of what mostly differs.
std::uint64_t hash_of(const RunningOp& running_op) {
  const KernelDemand& kernel = running_op.kernel;
  const CollectiveDemand& other = running_op.collective;
  std::uint64_t hash = static_cast<std::uint64_t>(running_op.role) * 1024 + kernel.tiles;
  for (const double value : {kernel.memory, kernel.clock, kernel.ring_slowdown, kernel.held, kernel.streamed, other.sms,
                             other.link, other.traffic})
    hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15 + (hash >> 29);  // golden ratio's bits
  return hash;
}

}  // namespace

StreamId OpTable::add_stream() {
  streams_.emplace_back();
  return StreamId{static_cast<std::uint32_t>(streams_.size() - 1)};
}

CommunicatorId OpTable::add_communicator() {
  communicators_.emplace_back();
  return CommunicatorId{static_cast<std::uint32_t>(communicators_.size() - 1)};
}

std::uint32_t OpTable::index_of(const RunningOp& running_op) {
  const std::uint64_t hash = hash_of(running_op);
  const auto [begin, end] = index_of_running_op_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (running_ops_[at->second] == running_op) return at->second;
  const auto index = static_cast<std::uint32_t>(running_ops_.size());
  running_ops_.push_back(running_op);
  waiting_ops_.push_back(waiting(running_op));
  early_ops_.push_back(early(running_op));
  index_of_running_op_.emplace(hash, index);
  return index;
}

OpId OpTable::submit(const EngineOp& op, std::uint32_t known_running_op) {
  FORESHARD_CHECK(op.work.count >= 0 && op.work <= kLongestOp, "an op of more than an hour");
  const std::uint32_t id = static_cast<std::uint32_t>(ops_.size());
  Stream& stream = streams_[op.stream.value];
  Op out;
  out.work = op.work.count << kWorkShift;
  out.waits_for = {static_cast<std::uint32_t>(wait_pool_.size()), static_cast<std::uint32_t>(stream.waits.size())};
  if (!stream.waits.empty()) {
    wait_pool_.insert(wait_pool_.end(), stream.waits.begin(), stream.waits.end());
    stream.waits.clear();
  }
  out.stream = op.stream;
  out.place = static_cast<std::uint32_t>(stream.ops.size());
  if (!stream.ops.empty()) ops_[stream.ops.back()].behind = id;
  stream.ops.push_back(id);
  out.communicator = op.communicator;
  if (op.communicator.valid()) {
    std::vector<std::uint32_t>& communicator = communicators_[op.communicator.value];
    out.communicator_place = static_cast<std::uint32_t>(communicator.size());
    communicator.push_back(id);
  }
  out.running_op = known_running_op == kNoRunningOp ? index_of(op.running_op) : known_running_op;
  const RunningOp& running_op = running_ops_[out.running_op];
  out.side = running_op.role == RunningOp::Role::side_kernel;
  out.in_turn = out.side && running_op.in_turn;
  out.main = running_op.role == RunningOp::Role::main_kernel;
  out.persistent = out.main && running_op.kernel.persistent;
  out.needs_sms = out.side || (running_op.role == RunningOp::Role::collective && running_op.collective.sms > 0);
  out.is_copy = op.is_copy;
  out.lengthens_gaps = op.lengthens_gaps;
  out.endless = op.endless;
  out.nothing = op.nothing;
  out.of_graph = op.of_graph;
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
