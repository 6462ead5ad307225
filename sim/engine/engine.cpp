#include "sim/engine/engine.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {

StreamId Engine::add_stream() {
  streams_.emplace_back();
  return StreamId{static_cast<std::uint32_t>(streams_.size() - 1)};
}

CommunicatorId Engine::add_communicator() {
  communicators_.emplace_back();
  return CommunicatorId{static_cast<std::uint32_t>(communicators_.size() - 1)};
}

OpId Engine::submit(const EngineOp& op) {
  FORESHARD_CHECK(op.work.count >= 0 && op.work <= kLongestOp, "an op of more than an hour");
  FORESHARD_CHECK(timings_.empty() || timings_.back().issue <= op.issue, "ops must be issued in order of time");
  const std::uint32_t id = static_cast<std::uint32_t>(ops_.size());
  Stream& stream = streams_[op.stream.value];
  const Range waits{static_cast<std::uint32_t>(wait_pool_.size()), static_cast<std::uint32_t>(stream.waits.size())};
  wait_pool_.insert(wait_pool_.end(), stream.waits.begin(), stream.waits.end());
  stream.waits.clear();
  ops_.push_back({op.work.count << kWorkShift, waits, op.communicator, pack(op.running_op), op.is_copy,
                  op.lengthens_gaps, op.endless, op.nothing});
  timings_.push_back({op.issue, kNever, kNever});
  stream_of_.push_back(op.stream);
  stream.queue.push_back(id);
  if (op.communicator.valid()) communicators_[op.communicator.value].queue.push_back(id);
  if (op.lengthens_gaps) gap_issues_.push_back(op.issue.count);
  if (stream.head + 1 == stream.queue.size()) {
    find_ready(stream);
    next_ = std::min(next_, stream.ready_at);
  }
  return OpId{id};
}

/// Keeps one op a stream, the latest: streams are in order, so it ends last.
void Engine::add_wait(std::vector<std::uint32_t>& waits, std::uint32_t op, std::span<const StreamId> stream_of) {
  for (std::uint32_t& other : waits) {
    if (stream_of[other] != stream_of[op]) continue;
    other = std::max(other, op);
    return;
  }
  waits.push_back(op);
}

EventId Engine::record(StreamId stream_id) {
  const Stream& stream = streams_[stream_id.value];
  Range range{static_cast<std::uint32_t>(wait_pool_.size()), 0};
  wait_pool_.insert(wait_pool_.end(), stream.waits.begin(), stream.waits.end());
  if (!stream.queue.empty()) wait_pool_.push_back(stream.queue.back());
  range.count = static_cast<std::uint32_t>(wait_pool_.size()) - range.begin;
  events_.push_back(range);
  return EventId{static_cast<std::uint32_t>(events_.size() - 1)};
}

void Engine::wait(StreamId stream_id, EventId event) {
  FORESHARD_CHECK(event.value < events_.size(), "a wait for an event that was never recorded");
  Stream& stream = streams_[stream_id.value];
  const Range range = events_[event.value];
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const std::uint32_t op = wait_pool_[range.begin + i];
    if (stream_of_[op] != stream_id) add_wait(stream.waits, op, stream_of_);  // a stream waits for itself anyway
  }
}

bool Engine::complete(EventId event) const {
  const Range range = events_[event.value];
  for (std::uint32_t i = 0; i < range.count; ++i)
    if (!ended(OpId{wait_pool_[range.begin + i]})) return false;
  return true;
}

Nanoseconds Engine::completion(EventId event) const {
  const Range range = events_[event.value];
  Nanoseconds latest;
  for (std::uint32_t i = 0; i < range.count; ++i) latest = std::max(latest, timings_[wait_pool_[range.begin + i]].end);
  return latest;
}

/// Issued strictly before `at`, so that the answer does not depend on whether the host has come to `at`.
bool Engine::all_gather_queued(std::int64_t at) {
  while (gap_issued_ < gap_issues_.size() && gap_issues_[gap_issued_] < at) ++gap_issued_;
  return gap_issued_ > gap_ended_;
}

/// Sets ready_at of an idle stream's first op, if everything it waits for has ended.
void Engine::find_ready(Stream& stream) {
  stream.ready_at = kNever.count;
  if (stream.head == stream.queue.size()) return;
  const std::uint32_t id = stream.queue[stream.head];
  const Pending& op = ops_[id];
  std::int64_t ready = timings_[id].issue.count + machine_.latencies.launch.count;
  ready = std::max(ready, op.is_copy ? stream.earliest_copy : stream.earliest);
  if (op.communicator.valid()) {
    const Communicator& communicator = communicators_[op.communicator.value];
    if (communicator.queue[communicator.head] != id) return;
    ready = std::max(ready, communicator.earliest);
  }
  for (std::uint32_t i = 0; i < op.waits_for.count; ++i) {
    const OpTiming& awaited = timings_[wait_pool_[op.waits_for.begin + i]];
    if (awaited.end == kNever) return;
    ready = std::max(ready, awaited.end.count + machine_.latencies.event_wait.count);
  }
  stream.ready_at = ready;
}

bool Engine::end_finished(std::int64_t at) {
  just_ended_.clear();
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    if (stream.finish > at) continue;
    const std::uint32_t id = stream.queue[stream.head];
    timings_[id].end = {at};
    const Pending& op = ops_[id];
    if (op.communicator.valid()) {
      Communicator& communicator = communicators_[op.communicator.value];
      ++communicator.head;
      communicator.earliest = at + machine_.latencies.communicator_gap.count;
    }
    if (op.lengthens_gaps) ++gap_ended_;
    if (op.running_op.persistent()) --persistents_;
    if (op.running_op.side()) --sides_;
    ++ended_;
    ++stream.head;
    stream.running = false;
    stream.finish = kNever.count;
    just_ended_.push_back(s);
  }
  if (just_ended_.empty()) return false;
  const Latencies& latencies = machine_.latencies;
  const std::int64_t gap = all_gather_queued(at) ? latencies.kernel_gap_all_gather.count : latencies.kernel_gap.count;
  for (std::uint32_t s : just_ended_) {
    Stream& stream = streams_[s];
    const std::uint32_t id = stream.queue[stream.head - 1];
    const Pending& op = ops_[id];
    if (op.nothing) continue;
    const bool long_kernel =
        !op.communicator.valid() && Nanoseconds{at} - timings_[id].start >= latencies.long_kernel_from;
    const std::int64_t more = long_kernel ? latencies.long_kernel.count : 0;
    stream.earliest_copy = at + latencies.copy_gap.count;
    stream.earliest = op.is_copy ? stream.earliest_copy : at + gap + more;
  }
  return true;
}

/// What needs SMs starts before kernels do, and waits where persistent kernels leave none. Those wait for kernels of
/// other streams in turn.
bool Engine::start_ready(std::int64_t at) {
  bool any = false;
  const auto ready = [&](const Stream& stream) { return stream.waits_for_sms || stream.ready_at <= at; };
  if (persistents_ == 0)
    for (Stream& stream : streams_)
      if (ready(stream) && first(stream).running_op.needs_sms()) any |= start(stream, at);
  for (Stream& stream : streams_) {
    if (!ready(stream)) continue;
    const PackedRunningOp& running_op = first(stream).running_op;
    if (running_op.needs_sms() || (running_op.persistent() && sides_ > 0)) {
      stream.waits_for_sms = true;
      stream.ready_at = kNever.count;
    } else {
      any |= start(stream, at);
    }
  }
  return any;
}

bool Engine::start(Stream& stream, std::int64_t at) {
  const std::uint32_t id = stream.queue[stream.head];
  timings_[id].start = {at};
  stream.waits_for_sms = false;
  stream.ready_at = kNever.count;
  stream.remaining = ops_[id].work;
  stream.running = true;
  if (ops_[id].running_op.persistent()) ++persistents_;
  if (ops_[id].running_op.side()) ++sides_;
  return true;
}

/// Takes the work done since now_ off every running op.
void Engine::progress(std::int64_t to) {
  const std::int64_t elapsed = to - now_;
  if (elapsed > 0)
    for (Stream& stream : streams_)
      if (stream.running) stream.remaining = std::max<std::int64_t>(0, stream.remaining - elapsed * stream.rate);
  now_ = to;
}

void Engine::update_rates(std::int64_t at) {
  running_.clear();
  running_ops_.clear();
  shares_.clear();
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    if (!streams_[s].running) continue;
    running_.push_back(s);
    running_ops_.push_back(unpack(first(streams_[s]).running_op));
    const std::uint32_t id = streams_[s].queue[streams_[s].head];
    shares_.push_back({ops_[id].work, streams_[s].remaining, at - timings_[id].start.count});
  }
  rates_.resize(running_.size());
  if (running_.empty()) return;
  fill_rates(machine_, running_ops_, shares_, rates_);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Stream& stream = streams_[running_[i]];
    stream.rate = rates_[i];
    stream.finish = at + (stream.remaining + stream.rate - 1) / stream.rate;  // the end is rounded up to a nanosecond
    if (ops_[stream.queue[stream.head]].endless) stream.finish = kNever.count;
  }
}

void Engine::find_next() {
  next_ = kNever.count;
  for (const Stream& stream : streams_) next_ = std::min({next_, stream.ready_at, stream.finish});
}

void Engine::process(std::int64_t at) {
  FORESHARD_CHECK(at >= now_, "simulated time must not run backwards");
  progress(at);
  const bool some_ended = end_finished(at);
  const bool some_started = start_ready(at);
  if (some_ended)
    for (Stream& stream : streams_)
      if (!stream.running && !stream.waits_for_sms && stream.ready_at == kNever.count) find_ready(stream);
  if (some_ended || some_started) update_rates(at);
  find_next();
}

std::vector<Stuck> Engine::stuck() const {
  std::vector<Stuck> result;
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    const Stream& stream = streams_[s];
    if (stream.head == stream.queue.size()) continue;
    const std::uint32_t id = stream.queue[stream.head];
    const Pending& op = ops_[id];
    Stuck entry{StreamId{s}, OpId{id}, Stuck::Reason::peers, {}, {}};
    for (std::uint32_t i = 0; i < op.waits_for.count; ++i) {
      const OpId awaited{wait_pool_[op.waits_for.begin + i]};
      if (ended(awaited)) continue;
      entry.reason = Stuck::Reason::event;
      entry.waits_for = awaited;
    }
    if (op.communicator.valid() && !entry.waits_for.valid()) {
      const Communicator& communicator = communicators_[op.communicator.value];
      if (communicator.queue[communicator.head] != id) {
        entry.reason = Stuck::Reason::communicator;
        entry.waits_for = OpId{communicator.queue[communicator.head]};
      }
    }
    if (entry.waits_for.valid()) entry.waits_for_on = stream_of_[entry.waits_for.value];
    result.push_back(entry);
  }
  return result;
}

}  // namespace foreshard::sim
