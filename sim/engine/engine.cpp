#include "sim/engine/engine.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kCompute = kComputeStream.value;

/// What is left to do as if it ran at the full rate.
std::int64_t at_pace(std::int64_t remaining, std::int64_t pace) {
  return static_cast<std::int64_t>(static_cast<double>(remaining) * static_cast<double>(kFullRate) /
                                   static_cast<double>(std::max<std::int64_t>(1, pace)));
}

/// op_time() of no more than kLongestOp, as it rounds, without the C library's call: once for each kernel of each rank.
[[gnu::always_inline]] inline std::int64_t scaled_work(std::int64_t work, double factor) {
  const double ns = static_cast<double>(work >> kWorkShift) * factor;
  if (!(ns > 0 && ns < static_cast<double>(kLongestOp.count))) return op_time(ns).count << kWorkShift;
  const auto whole = static_cast<std::int64_t>(ns);
  return (whole + (ns - static_cast<double>(whole) >= 0.5 ? 1 : 0)) << kWorkShift;
}

}  // namespace

/// What of an engine is not its options, its table or a queue of times that goes back by itself.
struct Engine::Mark {
  EngineCourse course;
  ByCommunicator<Communicator> communicators;
  ByStream<Lane> lanes;
  ByStream<StreamCourse> streams;
  ByStream<IssueTimes::Mark> issues;
  std::size_t gap_issues = 0;
  std::size_t gap_first = 0;
  std::optional<DelayTrack> delays;
};

Engine::Engine(const MachineProfile& machine, const OpTable& table, const EngineOptions& options)
    : machine_(machine), table_(table), options_(options) {
  if (options.tells_delays) delays_ = std::make_unique<DelayTrack>();
}

Engine::~Engine() = default;

// always_inline: what process_compute() is made of. A rank passes through it twice an op, and the calls took as long as
// what they did.

void Engine::grow() {
  streams_.resize(table_.streams());
  lanes_.resize(table_.streams());
  communicators_.resize(table_.communicators());
  if (delays_) delays_->grow(streams_.size(), communicators_.size());
}

void Engine::keep_issue(OpId id, Nanoseconds at) {
  const OpTable::Op& op = table_.op(id);
  if (options_.keep_timings) {
    FORESHARD_CHECK(timings_.empty() || timings_.back().issue <= at, "ops must be issued in order of time");
    timings_.push_back({at, kNever, kNever});
  }
  if (!op.lengthens_gaps) return;
  gap_issues_.push_back(at.count);
  gap_next_ = gap_issues_[gap_first_];
}

void Engine::issue_first(OpId id) {
  const StreamId stream = table_.op(id).stream;
  lanes_[stream.value].queued = true;
  streams_[stream.value].first = id.value;
  find_ready(stream.value);
  next_ = std::min(next_, lanes_[stream.value].ready_at);
  if (stream != kComputeStream) find_others();
}

bool Engine::complete(EventId event) const {
  const auto awaited = table_.awaited(event);
  return std::all_of(awaited.begin(), awaited.end(), [&](std::uint32_t op) { return ended(OpId{op}); });
}

Nanoseconds Engine::completion(EventId event) const {
  Nanoseconds latest;
  for (const std::uint32_t op : table_.awaited(event)) latest = std::max(latest, timings_[op].end);
  return latest;
}

std::int64_t Engine::left_on(StreamId stream) const {
  if (stream.value >= streams_.size() || !lanes_[stream.value].running || first(stream.value).communicator.valid())
    return 0;
  return (lanes_[stream.value].remaining >> kWorkShift) + 1;
}

Engine::CollectiveCourse Engine::collective(CommunicatorId communicator) const {
  if (communicator.value >= communicators_.size()) return {};
  CollectiveCourse out{communicators_[communicator.value].head, Gate::open, 0, kFullRate};
  const std::vector<std::uint32_t>& ops = table_.communicator_ops(communicator.value);
  if (out.place >= ops.size()) return out;
  const std::uint32_t stream = table_.ops()[ops[out.place]].stream.value;
  if (!lanes_[stream].running || streams_[stream].first != ops[out.place]) return out;
  out.gate = lanes_[stream].gate;
  out.left = lanes_[stream].remaining >> kWorkShift;
  out.pace = streams_[stream].pace;
  return out;
}

void Engine::count_gap_issues(std::int64_t before) {
  while (gap_first_ < gap_issues_.size() && gap_issues_[gap_first_] < before) {
    ++gap_first_;
    ++gap_unfinished_;
  }
  if (!mark_) drop_gap_issues();
  gap_next_ = gap_first_ < gap_issues_.size() ? gap_issues_[gap_first_] : kNever.count;
}

/// Those that are counted.
void Engine::drop_gap_issues() {
  if (gap_first_ <= 64 || 2 * gap_first_ <= gap_issues_.size()) return;
  gap_issues_.erase(gap_issues_.begin(), gap_issues_.begin() + static_cast<std::ptrdiff_t>(gap_first_));
  gap_first_ = 0;
}

/// Issued strictly before `at`, so that the answer does not depend on whether the host has come to `at`.
[[gnu::always_inline]] inline bool Engine::all_gather_queued(std::int64_t at) {
  if (gap_next_ < at) count_gap_issues(at);
  return gap_unfinished_ > 0;
}

/// Sets ready_at of an idle stream's first op, if everything it waits for has ended.
[[gnu::always_inline]] inline void Engine::find_ready(std::uint32_t index) {
  const Stream& stream = streams_[index];
  Lane& lane = lanes_[index];
  lane.ready_at = kNever.count;
  if (!lane.queued) return;
  const OpTable::Op& op = first(stream);
  std::int64_t ready = stream.issues.front() + machine_.latencies.launch.count;
  ready = std::max(ready, op.is_copy ? stream.earliest_copy : stream.earliest);
  if (op.communicator.valid()) {
    const Communicator& communicator = communicators_[op.communicator.value];
    if (communicator.head != op.communicator_place) return;
    ready = std::max(ready, communicator.earliest);
  }
  for (const std::uint32_t id : table_.awaited(op.waits_for)) {
    const OpTable::Op& awaited = table_.ops().data()[id];
    const Stream& other = streams_[awaited.stream.value];
    if (awaited.place >= other.head) return;
    if (awaited.place < other.ends.begin()) continue;  // its end lies further back than an event's wait
    ready = std::max(ready, other.ends.of(awaited.place) + machine_.latencies.event_wait.count);
  }
  lane.ready_at = std::max(ready, now_);
  if (options_.tells_delays) find_delays(index);
}

void Engine::issue_delays(const Delays& host) {
  delays_->grow(table_.streams(), table_.communicators());
  const OpTable::Op& op = table_.ops()[issued_];
  delays_->issue(op.stream.value, op.place, host);
}

/// Of an idle stream's first op, which may begin: those of what it waited for last, as find_ready() has it.
void Engine::find_delays(std::uint32_t index) {
  const Stream& stream = streams_[index];
  const OpTable::Op& op = first(stream);
  std::int64_t latest = stream.issues.front() + machine_.latencies.launch.count;
  Delays found = delays_->issued(index, op.place);
  const auto take = [&](std::int64_t passed, const Delays& delays) {
    if (passed <= latest) return;
    latest = passed;
    found = delays;
  };
  if (op.place > 0) take(op.is_copy ? stream.earliest_copy : stream.earliest, delays_->ended(index, op.place - 1));
  if (op.communicator.valid())
    take(communicators_[op.communicator.value].earliest, delays_->communicator(op.communicator.value));
  for (const std::uint32_t id : table_.awaited(op.waits_for)) {
    const OpTable::Op& awaited = table_.ops()[id];
    const Stream& other = streams_[awaited.stream.value];
    if (awaited.place < other.ends.begin() || other.head - awaited.place > DelayTrack::kEnded) continue;
    take(other.ends.of(awaited.place) + machine_.latencies.event_wait.count,
         delays_->ended(awaited.stream.value, awaited.place));
  }
  delays_->first(index) = found;
}

/// Of the first op of a stream, which ends.
void Engine::end_delays(std::uint32_t index) {
  const Stream& stream = streams_[index];
  const OpTable::Op& op = first(stream);
  Delays delays = delays_->first(index);
  if (op.communicator.valid())
    delays = delays_->communicator(op.communicator.value);
  else
    delays.of(Resource::gpu) += (stream.work - (options_.all_work_delays ? 0 : op.work)) >> kWorkShift;
  delays_->end(index, op.place, delays);
}

[[gnu::always_inline]] inline void Engine::end_first(std::uint32_t index, std::int64_t at) {
  Stream& stream = streams_[index];
  Lane& lane = lanes_[index];
  const std::uint32_t id = stream.first;
  const OpTable::Op& op = table_.ops().data()[id];
  if (options_.keep_timings) timings_[id].end = {at};
  if (options_.tells_delays) end_delays(index);
  if (op.communicator.valid()) {
    Communicator& communicator = communicators_[op.communicator.value];
    ++communicator.head;
    communicator.earliest = at + machine_.latencies.communicator_gap.count;
    --moving_;
  }
  if (op.lengthens_gaps) --gap_unfinished_;
  if (op.persistent) --persistents_;
  if (op.main) --mains_;
  if (op.in_turn) {
    --in_turn_;
    compute_next_ = lanes_[kCompute].waits_for_sms;
  }
  if (op.side) {
    --sides_;
    if (lanes_[kCompute].waits_for_sms && !op.in_turn) sides_until_ = at + machine_.latencies.event_wait.count;
  }
  ++ended_;
  ++stream.head;
  stream.first = op.behind;
  stream.issues.pop();
  // What can still be asked of: ends that an event's wait has not yet passed.
  while (stream.ends.begin() != stream.ends.end() && stream.ends.front() + machine_.latencies.event_wait.count <= at)
    stream.ends.pop();
  stream.ends.push(at);
  lane.queued = stream.head < stream.issued;
  lane.running = false;
  lane.gate = Gate::open;
  lane.finish = kNever.count;
  lane.rate = 0;
}

[[gnu::always_inline]] inline std::int64_t Engine::kernel_gap(std::int64_t at) {
  const Latencies& latencies = machine_.latencies;
  return all_gather_queued(at) ? latencies.kernel_gap_all_gather.count : latencies.kernel_gap.count;
}

/// Behind the op that has just ended.
[[gnu::always_inline]] inline void Engine::leave_gap(std::uint32_t index, const OpTable::Op& behind, std::int64_t at,
                                                     std::int64_t gap) {
  if (behind.nothing) return;
  Stream& stream = streams_[index];
  const Latencies& latencies = machine_.latencies;
  const bool long_kernel = !behind.communicator.valid() && Nanoseconds{at - stream.start} >= latencies.long_kernel_from;
  const std::int64_t more = long_kernel ? latencies.long_kernel.count : 0;
  stream.earliest_copy = at + latencies.copy_gap.count;
  stream.earliest = behind.is_copy    ? stream.earliest_copy
                    : behind.of_graph ? at + latencies.graph_gap.count
                                      : at + gap + more;
}

bool Engine::end_finished(std::int64_t at) {
  ByStream<std::uint32_t> ended;
  for (std::uint32_t s = 0; s < lanes_.size(); ++s) {
    if (lanes_[s].finish > at) continue;
    ended.push_back(streams_[s].first);
    end_first(s, at);
  }
  if (ended.empty()) return false;
  const std::int64_t gap = kernel_gap(at);
  for (const std::uint32_t id : ended) {
    const OpTable::Op& op = table_.ops().data()[id];
    leave_gap(op.stream.value, op, at, gap);
  }
  return true;
}

/// What needs SMs starts before kernels do, and waits where persistent kernels leave none. Those wait for kernels of
/// other streams in turn, of which the one that could have begun first goes first.
bool Engine::start_ready(std::int64_t at) {
  ByStream<std::uint32_t> ready;
  bool some_need_sms = false;
  for (std::uint32_t s = 0; s < lanes_.size(); ++s) {
    if (lanes_[s].ready_at > at && !lanes_[s].waits_for_sms) continue;
    ready.push_back(s);
    some_need_sms |= first(s).needs_sms;
  }
  bool any = false;
  const auto begin = [&](std::uint32_t s) {
    start(s, at);
    any = true;
  };
  if (persistents_ == 0 && some_need_sms) {
    const auto since = [&](std::uint32_t s) {
      return lanes_[s].waits_for_sms ? streams_[s].waits_since : lanes_[s].ready_at;
    };
    std::optional<std::uint32_t> turn;
    for (const std::uint32_t s : ready) {
      if (!first(s).needs_sms) continue;
      if (!first(s).in_turn)
        begin(s);
      else if (!turn || since(s) < since(*turn))
        turn = s;
    }
    if (turn && mains_ == 0 && in_turn_ == 0 && !compute_next_) begin(*turn);
  }
  for (const std::uint32_t s : ready) {
    Lane& lane = lanes_[s];
    if (lane.running) continue;
    const OpTable::Op& op = first(s);
    if (op.needs_sms || held_up(op) || (op.persistent && at < sides_until_)) {
      if (!lane.waits_for_sms) streams_[s].waits_since = lane.ready_at;
      lane.waits_for_sms = true;
      lane.ready_at = kNever.count;
    } else {
      begin(s);
    }
  }
  return any;
}

[[gnu::always_inline]] inline void Engine::start(std::uint32_t index, std::int64_t at) {
  Stream& stream = streams_[index];
  Lane& lane = lanes_[index];
  const std::uint32_t id = stream.first;
  const OpTable::Op& op = table_.ops().data()[id];
  if (options_.keep_timings) timings_[id].start = {at};
  stream.start = at;
  if (options_.tells_delays && lane.waits_for_sms) delays_->first(index) = delays_->last();  // what left it the SMs
  lane.early = op.communicator.valid() && !lane.waits_for_sms;
  lane.waits_for_sms = false;
  lane.ready_at = kNever.count;
  lane.running = true;
  stream.work = op.work;
  if (op.persistent) ++persistents_;
  if (op.main) ++mains_;
  if (index == kCompute) compute_next_ = false;
  if (op.side) ++sides_;
  if (op.in_turn) ++in_turn_;
  if (!op.communicator.valid()) {
    double factor = options_.kernel_work;
    if (options_.kernel_draws.any()) factor *= options_.kernel_draws.factor(id);
    if (factor != 1) stream.work = op_time(static_cast<double>(op.work >> kWorkShift) * factor).count << kWorkShift;
    lane.remaining = stream.work;
    return;
  }
  lane.remaining = op.work;
  if (!options_.joint) {
    ++moving_;
    return;
  }
  ++waiting_;
  stream.pace = kFullRate;
  lane.gate = Gate::arrived;
  stream.release_at = kNever.count;
  meetings_.push_back({Meeting::Kind::arrived, op.communicator, OpId{id}, {at}});
}

std::uint32_t Engine::stream_of(CommunicatorId communicator) const {
  const std::uint32_t place = communicators_[communicator.value].head;
  return table_.ops()[table_.communicator_ops(communicator.value)[place]].stream.value;
}

void Engine::release(CommunicatorId communicator, Nanoseconds at) {
  FORESHARD_CHECK(at.count >= now_, "a collective that begins in the past");
  const std::uint32_t stream = stream_of(communicator);
  FORESHARD_CHECK(lanes_[stream].gate == Gate::arrived, "a collective of other ranks that has not come");
  streams_[stream].release_at = at.count;
  if (at.count == now_) {
    static_cast<void>(open_gates(now_));
    update_rates(now_);
  }
  find_others();
  find_next();
}

void Engine::finish(CommunicatorId communicator, Nanoseconds at) {
  FORESHARD_CHECK(at.count >= now_, "a collective that ends in the past");
  const std::uint32_t stream = stream_of(communicator);
  FORESHARD_CHECK(lanes_[stream].gate == Gate::done, "a collective of other ranks that is not done");
  lanes_[stream].finish = at.count;
  find_next();
}

void Engine::set_pace(CommunicatorId communicator, std::int64_t pace, Nanoseconds at) {
  FORESHARD_CHECK(at.count >= now_ && options_.paced, "a pace in the past, or of an engine that has none");
  const std::uint32_t stream = stream_of(communicator);
  if (lanes_[stream].gate != Gate::moving || streams_[stream].pace == pace) return;
  progress(at.count);
  streams_[stream].pace = pace;
  update_rates(now_);
  find_next();
}

void Engine::prefetch_times() const {
  for (const Stream& stream : streams_)
    if (stream.issued > 0) stream.issues.prefetch();
  constexpr std::size_t kLine = 64;
  const auto* const mark = reinterpret_cast<const char*>(mark_.get());
  for (std::size_t at = 0; mark != nullptr && at < sizeof(Mark); at += kLine) __builtin_prefetch(mark + at, 1);
}

void Engine::mark() {
  FORESHARD_CHECK(meetings_.empty() && options_.script == nullptr && !options_.keep_timings, "an engine without marks");
  if (!mark_) mark_ = std::make_unique<Mark>();
  if (streams_.empty()) grow();
  drop_gap_issues();
  Mark& mark = *mark_;
  mark.course = *this;
  mark.communicators = communicators_;
  mark.lanes = lanes_;
  mark.streams.resize(streams_.size());
  mark.issues.resize(streams_.size());
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    mark.streams[s] = streams_[s];
    streams_[s].issues.mark(mark.issues[s]);
  }
  mark.gap_issues = gap_issues_.size();
  mark.gap_first = gap_first_;
  if (delays_) mark.delays = *delays_;
}

void Engine::rewind() {
  const Mark& mark = *mark_;
  static_cast<EngineCourse&>(*this) = mark.course;
  meetings_.clear();
  communicators_ = mark.communicators;
  lanes_ = mark.lanes;
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    static_cast<StreamCourse&>(streams_[s]) = mark.streams[s];
    streams_[s].issues.rewind(mark.issues[s]);
  }
  gap_issues_.resize(mark.gap_issues);
  gap_first_ = mark.gap_first;
  if (delays_) *delays_ = *mark.delays;
}

/// Joint collectives whose ranks are all there begin to move bytes.
bool Engine::open_gates(std::int64_t at) {
  bool any = false;
  for (std::uint32_t s = 0; s < lanes_.size(); ++s) {
    if (lanes_[s].gate != Gate::arrived || streams_[s].release_at > at) continue;
    lanes_[s].gate = Gate::moving;
    --waiting_;
    ++moving_;
    any = true;
  }
  return any;
}

/// Joint collectives that have done their part: before anything else of this instant, since it may end in it.
bool Engine::report_done(std::int64_t at) {
  bool any = false;
  for (std::uint32_t s = 0; s < lanes_.size(); ++s) {
    Lane& lane = lanes_[s];
    if (lane.gate != Gate::moving || lane.finish > at) continue;
    lane.gate = Gate::done;
    lane.finish = kNever.count;
    meetings_.push_back({Meeting::Kind::done, first(s).communicator, OpId{streams_[s].first}, {at}});
    any = true;
  }
  return any;
}

/// Takes the work done since now_ off every running op.
[[gnu::always_inline]] inline void Engine::progress(std::int64_t to) {
  const std::int64_t elapsed = to - now_;
  if (elapsed > 0) {
    const auto work = [&](Lane& lane) {
      lane.remaining = std::max<std::int64_t>(0, lane.remaining - elapsed * lane.rate);
    };
    Lane& compute = lanes_[kCompute];
    if (compute.running)
      work(compute);
    else if (waiting_ > 0 && compute.queued && streams_[kCompute].issues.front() < to)
      idle_for_ranks_ += elapsed;
    for (const std::uint32_t s : beside_) work(lanes_[s]);
  }
  now_ = to;
}

/// Of an op that nothing runs beside.
[[gnu::always_inline]] inline void Engine::run_alone(std::uint32_t s, std::int64_t at) {
  Lane& lane = lanes_[s];
  if (has_stopped(s)) {
    stop(lane);
    return;
  }
  lane.rate = has_pace(s) ? streams_[s].pace : kFullRate;
  set_finish(lane, first(s), at);
}

/// Ends are rounded up to a nanosecond.
[[gnu::always_inline]] inline void Engine::set_finish(Lane& lane, const OpTable::Op& op, std::int64_t at) {
  const std::int64_t time = lane.rate == kFullRate ? (lane.remaining + kFullRate - 1) >> kWorkShift
                                                   : (lane.remaining + lane.rate - 1) / lane.rate;
  lane.finish = op.endless ? kNever.count : at + time;
}

/// `beside_` holds the other streams that run.
[[gnu::always_inline]] inline void Engine::update_rates(std::int64_t at) {
  const bool computes = lanes_[kCompute].running;
  if (beside_.empty()) {
    if (computes) run_alone(kCompute, at);
    return;
  }
  if (beside_.size() == 1) {
    if (!computes) {
      run_alone(beside_[0], at);
      return;
    }
    if (run_pair(beside_[0], at)) return;
  }
  run_all(at);
}

/// What run_all() gives of an op of the compute stream beside one other; false, and nothing done, where the table has
/// nothing of these two.
[[gnu::always_inline]] inline bool Engine::run_pair(std::uint32_t index, std::int64_t at) {
  if (options_.rates == nullptr) return false;
  const Stream& stream = streams_[kCompute];
  const OpTable::Op& op = first(stream);
  if (op.communicator.valid()) return false;
  const OpTable::Op& other = first(index);
  Lane& beside = lanes_[index];
  const bool waiting = waits(beside);
  const std::int64_t pace = has_pace(index) && !waiting ? streams_[index].pace : kFullRate;
  if (pace == 0) return false;
  using As = RateTable::As;
  const As as = waiting ? As::waiting : beside.early ? As::early : As::put;
  const PairRates* pair = options_.rates->of(op.running_op, other.running_op, as);
  if (pair == nullptr) return false;
  PairRates at_pace_of_links;  // there are too many paces to keep them
  if (pace != kFullRate) {
    const RunningOp& as_put = beside.early ? table_.early_op(other) : table_.running_op(other);
    at_pace_of_links = pair_rates(machine_, table_.running_op(op), paced(as_put, pace));
    pair = &at_pace_of_links;
  }
  Lane& lane = lanes_[kCompute];
  const std::int64_t left = waiting             ? std::numeric_limits<std::int64_t>::max()
                            : pace != kFullRate ? at_pace(beside.remaining, pace)
                                                : beside.remaining;
  lane.rate = kernel_rate(*pair, {stream.work, lane.remaining, at - stream.start}, left);
  set_finish(lane, op, at);
  beside.rate = waiting ? 0 : pair->other;
  if (pace != kFullRate) beside.rate = std::max<std::int64_t>(1, pair->other * pace / kFullRate);
  if (!waiting) set_finish(beside, other, at);
  return true;
}

void Engine::run_all(std::int64_t at) {
  ByStream<std::uint32_t> running;
  ByStream<const RunningOp*> ops;
  ByStream<Share> shares;
  ByStream<std::int64_t> rates;
  if (options_.paced) paced_ops_.resize(streams_.size());
  const auto add = [&](std::uint32_t s) {
    const Stream& stream = streams_[s];
    const RunningOp* op = lanes_[s].early ? &table_.early_op(first(s)) : &table_.running_op(first(s));
    Share share{stream.work, lanes_[s].remaining, at - stream.start};
    if (has_stopped(s)) {
      op = &table_.waiting_op(first(s));
      share.remaining = std::numeric_limits<std::int64_t>::max();  // nobody knows when it will end
    } else if (has_pace(s)) {
      paced_ops_[s] = paced(*op, stream.pace);
      op = &paced_ops_[s];
      share.remaining = at_pace(share.remaining, stream.pace);
    }
    running.push_back(s);
    ops.push_back(op);
    shares.push_back(share);
  };
  if (lanes_[kCompute].running) add(kCompute);
  for (const std::uint32_t s : beside_) add(s);
  rates.resize(running.size());
  fill_rates(machine_, {ops.begin(), ops.size()}, {shares.begin(), shares.size()}, {rates.begin(), rates.size()});
  for (std::size_t i = 0; i < running.size(); ++i) {
    const std::uint32_t s = running[i];
    Lane& lane = lanes_[s];
    if (has_stopped(s)) {
      stop(lane);
      continue;
    }
    lane.rate = has_pace(s) ? std::max<std::int64_t>(1, rates[i] * streams_[s].pace / kFullRate) : rates[i];
    set_finish(lane, first(s), at);
  }
}

void Engine::find_next() {
  next_ = std::min(others_next_, others_end());
  if (!streams_.empty()) next_ = std::min({next_, lanes_[kCompute].ready_at, lanes_[kCompute].finish});
  if (some_wait_for_sms_ && sides_until_ > now_) next_ = std::min(next_, sides_until_);
}

[[gnu::always_inline]] inline std::int64_t Engine::others_end() const {
  std::int64_t end = kNever.count;
  for (const std::uint32_t s : beside_) end = std::min(end, lanes_[s].finish);
  return end;
}

void Engine::find_others() {
  others_next_ = kNever.count;
  awaited_place_ = std::numeric_limits<std::uint32_t>::max();
  some_wait_for_sms_ = false;
  beside_.clear();
  for (std::uint32_t s = 0; s < lanes_.size(); ++s) {
    const Lane& lane = lanes_[s];
    if (options_.script != nullptr && !streams_[s].paces.empty())
      others_next_ = std::min(others_next_, streams_[s].paces.front().at.count);
    if (lane.gate == Gate::arrived) others_next_ = std::min(others_next_, streams_[s].release_at);
    some_wait_for_sms_ |= lane.waits_for_sms;
    if (s == kCompute) continue;
    others_next_ = std::min(others_next_, lane.ready_at);
    if (lane.running) {
      beside_.push_back(s);
    } else if (lane.queued && lane.ready_at == kNever.count) {
      for (const std::uint32_t id : table_.awaited(first(s).waits_for)) {
        const OpTable::Op& awaited = table_.ops().data()[id];
        if (awaited.stream == kComputeStream && awaited.place >= streams_[kCompute].head)
          awaited_place_ = std::min(awaited_place_, awaited.place);
      }
    }
  }
}

/// What most instants are, in the way of process(): a kernel of the compute stream begins, and then, where that is
/// before `until` and before anything else, ends. False, and nothing done, where it is another one.
bool Engine::process_compute(std::int64_t at, std::int64_t until) {
  if (at >= others_next_ || some_wait_for_sms_ || !options_.short_ways || at >= others_end()) return false;
  const OpTable::Op& op = first(kCompute);
  if (op.communicator.valid() || op.needs_sms || held_up(op)) return false;
  const bool awaited = op.place == awaited_place_;
  if (lanes_[kCompute].finish != at) {
    progress(at);
    start(kCompute, at);
    update_rates(at);
    const std::int64_t end = lanes_[kCompute].finish;
    const std::int64_t others = std::min(others_next_, others_end());
    if (awaited || end >= std::min(until, others)) {
      next_ = std::min(end, others);
      return true;
    }
    at = end;
  } else if (awaited) {
    return false;
  }
  progress(at);
  end_first(kCompute, at);
  leave_gap(kCompute, op, at, kernel_gap(at));
  find_ready(kCompute);
  update_rates(at);
  next_ = std::min({lanes_[kCompute].ready_at, others_next_, others_end()});
  return true;
}

void Engine::process(std::int64_t at, std::int64_t until) {
  FORESHARD_CHECK(at >= now_, "simulated time must not run backwards");
  if (process_compute(at, until)) return;
  progress(at);
  if (options_.joint && moving_ > 0 && report_done(at)) {
    update_rates(at);
    find_next();
    answer_by_script();
    return;
  }
  const bool some_moved = waiting_ > 0 && open_gates(at);
  const bool some_ended = end_finished(at);
  const bool some_started = start_ready(at);
  const bool some_paced = options_.script != nullptr && take_paces(at);
  if (some_ended)
    for (std::uint32_t s = 0; s < lanes_.size(); ++s)
      if (lanes_[s].queued && !lanes_[s].running && !lanes_[s].waits_for_sms && lanes_[s].ready_at == kNever.count)
        find_ready(s);
  find_others();
  if (some_ended || some_started || some_moved || some_paced) update_rates(at);
  find_next();
  answer_by_script();
}

/// Of a script, behind all else of this instant.
bool Engine::take_paces(std::int64_t at) {
  bool any = false;
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    while (!stream.paces.empty() && stream.paces.front().at.count <= at) {
      any |= lanes_[s].gate == Gate::moving;
      if (lanes_[s].gate == Gate::moving) stream.pace = stream.paces.front().pace;
      stream.paces = stream.paces.subspan(1);
    }
  }
  return any;
}

/// Null where its ranks never come together.
const MeetingTimes* Engine::scripted(const Meeting& meeting) const {
  if (meeting.communicator.value >= options_.script->size()) return nullptr;
  const std::vector<MeetingTimes>& times = (*options_.script)[meeting.communicator.value];
  const std::uint32_t place = table_.op(meeting.op).communicator_place;
  return place < times.size() ? &times[place] : nullptr;
}

void Engine::answer_by_script() {
  if (options_.script == nullptr || meetings_.empty()) return;
  for (const Meeting& meeting : meetings_) {
    const MeetingTimes* const answer = scripted(meeting);
    if (answer == nullptr) continue;
    const MeetingTimes& times = *answer;
    if (meeting.kind == Meeting::Kind::arrived) {
      streams_[stream_of(meeting.communicator)].paces = times.paces;
      release(meeting.communicator, times.all_there);
    } else {
      finish(meeting.communicator, times.all_done);
    }
  }
  meetings_.clear();
}

std::optional<Engine::State> Engine::state(OpId op, OpId first) const {
  if (!meetings_.empty() || options_.paced || options_.script != nullptr) return std::nullopt;
  State out;
  const auto add = [&out](std::int64_t value) { out.own = mixed(out.own, static_cast<std::uint64_t>(value)); };
  const auto add_time = [&](std::int64_t at) { add(at == kNever.count ? at : at - now_); };
  // What has passed holds nothing up any more, however long ago it was.
  const auto add_earliest = [&](std::int64_t at) { add(std::max<std::int64_t>(0, at - now_)); };
  const auto ops_to = [&](const std::vector<std::uint32_t>& ops) {
    return static_cast<std::int64_t>(std::upper_bound(ops.begin(), ops.end(), op.value) - ops.begin());
  };
  add(static_cast<std::int64_t>(issued_) - op.value);
  add_time(next_);
  add_earliest(sides_until_);
  add(gap_unfinished_);
  for (std::size_t i = gap_first_; i < gap_issues_.size(); ++i) add(std::max<std::int64_t>(-1, gap_issues_[i] - now_));
  for (std::uint32_t c = 0; c < communicators_.size(); ++c) {
    const std::int64_t head = communicators_[c].head - ops_to(table_.communicator_ops(c));
    out.rounds = mixed(out.rounds, static_cast<std::uint64_t>(head));
    add_earliest(communicators_[c].earliest);
  }
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    const Stream& stream = streams_[s];
    const Lane& lane = lanes_[s];
    const std::int64_t place = ops_to(table_.stream_ops(s));
    const bool known = lane.gate == Gate::arrived ? stream.release_at != kNever.count
                       : lane.gate == Gate::done  ? lane.finish != kNever.count
                                                  : true;
    if (!known || (lane.queued && stream.first < first.value)) return std::nullopt;
    add(stream.head - place);
    add(stream.issued - place);
    add_earliest(stream.earliest);
    add_earliest(stream.earliest_copy);
    stream.issues.each([&](std::int64_t issue) { add_earliest(issue + machine_.latencies.launch.count); });
    for (std::uint32_t end = stream.ends.begin(); end != stream.ends.end(); ++end) {
      const std::int64_t passed = stream.ends.of(end) + machine_.latencies.event_wait.count;
      if (passed <= now_) continue;
      add(end - place);
      add_time(passed);
    }
    add(lane.queued + 2 * lane.running + 4 * lane.waits_for_sms + 8 * static_cast<int>(lane.gate) +
        32 * (lane.running && lane.early));
    add_time(lane.ready_at);
    if (lane.waits_for_sms) add_time(stream.waits_since);
    const bool begun = lane.gate != Gate::open;
    out.rounds = mixed(out.rounds, 2 * std::uint64_t{begun} + std::uint64_t{lane.gate == Gate::done});
    if (!lane.running) continue;
    add_time(lane.finish);
    add_time(stream.release_at);
    add(lane.remaining);
    add(lane.rate);
    add(stream.work);
    add_time(stream.start);
  }
  return out;
}

std::vector<Stuck> Engine::stuck() const {
  std::vector<Stuck> result;
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].head == streams_[s].issued) continue;
    const std::uint32_t id = streams_[s].first;
    const OpTable::Op& op = table_.ops()[id];
    Stuck entry{StreamId{s}, OpId{id}, Stuck::Reason::peers, {}, {}, {streams_[s].issues.front()}};
    for (const std::uint32_t awaited : table_.awaited(op.waits_for)) {
      if (ended(OpId{awaited})) continue;
      entry.reason = Stuck::Reason::event;
      entry.waits_for = OpId{awaited};
    }
    if (op.communicator.valid() && !entry.waits_for.valid()) {
      const Communicator& communicator = communicators_[op.communicator.value];
      if (communicator.head != op.communicator_place) {
        entry.reason = Stuck::Reason::communicator;
        entry.waits_for = OpId{table_.communicator_ops(op.communicator.value)[communicator.head]};
      }
    }
    if (entry.waits_for.valid()) entry.waits_for_on = table_.op(entry.waits_for).stream;
    result.push_back(entry);
  }
  return result;
}

}  // namespace foreshard::sim
