#include "gpu/cuda/op_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cudaEvent_t timing_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  return event;
}

}  // namespace

OpClock::OpClock(Timing timing) : timing_(timing), origin_(steady_now()) {
  if (timing_ == Timing::activities) {
    auto recording = ActivityRecording::start();
    if (recording) {
      activities_ = std::move(*recording);
    } else {
      timing_ = Timing::events;
      caveat_ = recording.error().what + "; ops are timed with CUDA events instead, which stretch short ones";
    }
  }
  zero_ = timing_event();
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const Nanoseconds before = now();
  require(cudaEventRecord(zero_, cudaStreamPerThread), "cudaEventRecord");
  require(cudaEventSynchronize(zero_), "cudaEventSynchronize");
  zero_time_ = {before.count + (now() - before).count / 2};
}

OpClock::~OpClock() {
  if (zero_ != nullptr) static_cast<void>(cudaEventDestroy(zero_));
  const auto destroy = [](const EventPair& pair) {
    for (cudaEvent_t event : {pair.begin, pair.end})
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  };
  for (const EventPair& pair : pairs_) destroy(pair);
  for (const Launch& launch : launches_) destroy(launch.events);
  for (const auto& [op, event] : marks_)
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
}

std::string OpClock::caveat() const {
  std::vector<std::string> all;
  if (!caveat_.empty()) all.push_back(caveat_);
  if (timing_ == Timing::events && !launches_.empty())
    all.emplace_back("ops of a CUDA graph have the length of the whole launch");
  if (activities_ != nullptr && activities_->unnamed() != 0)
    all.push_back(
        fmt::format("CUPTI did not say which nodes of the CUDA graph {} kernels are: ops of it look shorter than they "
                    "were",
                    activities_->unnamed()));
  if (activities_ != nullptr && activities_->dropped() != 0)
    all.push_back(fmt::format("CUPTI lost {} records: some ops look shorter than they were", activities_->dropped()));
  if (unrefined_ != 0)
    all.push_back(
        fmt::format("{} reduce-scatters have the times of the resident kernel's launches, not their own: more "
                    "of them ran between two synchronizations than it notes",
                    unrefined_));
  return fmt::format("{}", fmt::join(all, "; "));
}

Nanoseconds OpClock::now() const {
  return {steady_now() - origin_};
}

OpId OpClock::add(StreamId stream, std::optional<CommunicatorId> communicator) {
  const OpId op{static_cast<std::uint32_t>(timings_.size())};
  const Nanoseconds issue = now();
  timings_.push_back({issue, issue, issue});
  placed_.push_back({stream, communicator});
  if (timing_ == Timing::events) pairs_.emplace_back();
  return op;
}

OpId OpClock::begin(StreamId stream, cudaStream_t handle) {
  const OpId op = add(stream, {});
  if (activities_) activities_->push(op.value + 1ULL);
  if (timing_ == Timing::events) {
    pairs_.back() = {timing_event(), timing_event()};
    require(cudaEventRecord(pairs_.back().begin, handle), "cudaEventRecord");
  }
  return op;
}

void OpClock::end(OpId op, cudaStream_t handle, std::optional<CommunicatorId> communicator) {
  placed_[op.value].communicator = communicator;
  if (activities_) activities_->pop();
  if (timing_ == Timing::events) require(cudaEventRecord(pairs_[op.value].end, handle), "cudaEventRecord");
  mark_end(op, handle);
}

void OpClock::mark_end(OpId op, cudaStream_t handle) {
  if (marks_.empty()) return;
  if (const auto mark = marks_.find(op); mark != marks_.end()) {
    mark->second = timing_event();
    require(cudaEventRecord(mark->second, handle), "cudaEventRecord");
  }
}

void OpClock::begin_launch() {
  launches_.push_back({timings_.size(), timings_.size(), {}});
  if (activities_) activities_->begin_nodes();
}

OpId OpClock::node(StreamId stream, std::optional<CommunicatorId> communicator) {
  const OpId op = add(stream, communicator);
  if (activities_) activities_->node(op.value - launches_.back().first);
  return op;
}

void OpClock::before_launch(cudaStream_t handle) {
  Launch& launch = launches_.back();
  launch.last = timings_.size();
  if (activities_) {
    activities_->end_nodes();
    activities_->push(launch.first + 1ULL);
  }
  if (timing_ != Timing::events) return;
  launch.events = {timing_event(), timing_event()};
  require(cudaEventRecord(launch.events.begin, handle), "cudaEventRecord");
}

void OpClock::after_launch(cudaStream_t handle) {
  const Launch& launch = launches_.back();
  if (activities_) activities_->pop();
  if (timing_ == Timing::events) require(cudaEventRecord(launch.events.end, handle), "cudaEventRecord");
  const auto of_launch = [](std::size_t op) { return OpId{static_cast<std::uint32_t>(op)}; };
  const auto end = marks_.lower_bound(of_launch(launch.last));
  for (auto mark = marks_.lower_bound(of_launch(launch.first)); mark != end; ++mark) mark_end(mark->first, handle);
}

void OpClock::mark(std::span<const OpId> ops) {
  for (const OpId op : ops) marks_.emplace(op, nullptr);
}

Nanoseconds OpClock::time_of(cudaEvent_t event) const {
  float ms = 0;
  require(cudaEventElapsedTime(&ms, zero_, event), "cudaEventElapsedTime");
  return zero_time_ + Nanoseconds::from_double(static_cast<double>(ms) * 1e6);
}

std::map<OpId, Nanoseconds> OpClock::marked() {
  std::map<OpId, Nanoseconds> times;
  for (const auto& [op, event] : marks_)
    if (event != nullptr) times.emplace(op, time_of(event));
  return times;
}

void OpClock::settle(const Refine& refine) {
  if (timing_ == Timing::activities) settle_activities(refine);
  if (timing_ == Timing::events) settle_events();
}

void OpClock::settle_order(std::size_t from, const std::vector<bool>& seen) {
  for (std::size_t i = from; i < timings_.size(); ++i) {
    OpTiming& timing = timings_[i];
    const Placed& placed = placed_[i];
    Nanoseconds& on_stream = stream_end_[placed.stream.value];
    if (!seen[i]) {
      timing.start = std::max(timing.issue, on_stream);
      if (placed.communicator) timing.start = std::max(timing.start, communicator_end_[placed.communicator->value]);
      timing.end = timing.start;
    }
    timing.start = std::max(timing.start, timing.issue);  // the clocks' agreement is within a microsecond, not exact
    timing.end = std::max(timing.end, timing.start);
    on_stream = std::max(on_stream, timing.end);
    if (placed.communicator) {
      Nanoseconds& of_group = communicator_end_[placed.communicator->value];
      of_group = std::max(of_group, timing.end);
    }
  }
  settled_ = timings_.size();
}

void OpClock::settle_activities(const Refine& refine) {
  if (settled_ == timings_.size()) return;
  const auto activities = require(activities_->collect());
  std::vector<bool> seen(timings_.size(), false);
  for (const Activity& activity : activities) {
    const std::size_t i = activity.op - 1;
    if (activity.op == 0 || i >= timings_.size() || i < settled_) continue;
    const Nanoseconds start{activity.start.count - origin_};
    const Nanoseconds end{activity.end.count - origin_};
    OpTiming& timing = timings_[i];
    timing.start = seen[i] ? std::min(timing.start, start) : start;
    timing.end = seen[i] ? std::max(timing.end, end) : end;
    seen[i] = true;
  }
  if (refine) unrefined_ += refine(timings_);
  settle_order(settled_, seen);
}

void OpClock::settle_events() {
  const std::vector<bool> seen(timings_.size(), true);
  for (std::size_t i = settled_; i < timings_.size(); ++i) {
    if (pairs_[i].begin == nullptr) continue;
    timings_[i].start = time_of(pairs_[i].begin);
    timings_[i].end = time_of(pairs_[i].end);
  }
  for (const Launch& launch : launches_)
    for (std::size_t i = std::max(launch.first, settled_); i < launch.last; ++i) {
      timings_[i].start = time_of(launch.events.begin);
      timings_[i].end = time_of(launch.events.end);
    }
  settle_order(settled_, seen);
}

}  // namespace foreshard::gpu
