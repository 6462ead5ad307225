// The event-driven core of the simulator: ops on streams, what they wait for, and how fast they run. One engine is one
// rank's GPU.
//
// Who: SimDevice (sim/engine/sim_device.hpp) issues ops in host order and moves the simulated time on; sim/ranks does
// the same with many engines on one op table, whose collectives begin and end together. Knows nothing of the host's
// clock except each op's issue time, nothing of prices, nothing of memory.
//
// When an op may start: it is the first unfinished one of its stream and of its communicator, every op it
// waits for has ended, and each of these has passed:
//   issue + launch · end of its stream's previous op + gap · end of an awaited op + event_wait
//   · end of its communicator's previous collective + communicator_gap          (docs/model.md, "Streams")
// Behind a kernel node of a CUDA graph the gap is graph_gap, around its memsets and copies copy_gap.
// A collective that needs SMs and a kernel of another stream wait, beyond that, while a persistent kernel runs, and a
// persistent kernel while a kernel of another stream does, and until what waits for that has started. Kernels of the
// compute stream and of others of its priority take turns (docs/contention.md, "Arrival" and "Kernels of other
// streams"). A collective that did not wait so is early() (contention.hpp). While several run, each progresses at the
// rate of contention.hpp; work is conserved.
//
// Joint collectives (EngineOptions::joint) have other ranks' engines beside them: one that has started holds its SMs
// and moves nothing until release(), and one that has done its work keeps them until finish(). Each of the two is
// reported in meetings(), and the instant that follows must not be processed before the answer is there.
//
// Determinism: integer time; at one instant everything that ends does so before anything starts, each in
// order of stream id. Results do not depend on how often or how far advance() is called, as long as no op
// is issued at a time before the limit of an earlier call.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/deadlock.hpp"
#include "sim/engine/delay_track.hpp"
#include "sim/engine/issue_times.hpp"
#include "sim/engine/op_table.hpp"
#include "sim/engine/rate_table.hpp"
#include "sim/engine/recent_times.hpp"
#include "sim/engine/small_vector.hpp"
#include "sim/engine/spread.hpp"

namespace foreshard::sim {

/// An instant that is never reached.
inline constexpr Nanoseconds kNever = OpTiming::kNever;

/// From `at` on a collective runs at `pace`, in kFullRate of how it was priced.
struct PaceChange {
  Nanoseconds at;
  std::int64_t pace = kFullRate;
};
/// When a joint collective had all its ranks, and when the slowest was done.
struct MeetingTimes {
  Nanoseconds all_there;
  Nanoseconds all_done;
  std::vector<PaceChange> paces = {};  ///< ascending, from all_there on; empty: always the price's
};
/// By communicator, by place among its collectives; those behind the last never have all their ranks.
using MeetingScript = std::vector<std::vector<MeetingTimes>>;

struct EngineOptions {
  bool keep_timings = true;  ///< of every op; else only what later ops need of them
  bool joint = false;        ///< collectives wait for other engines
  double kernel_work = 1;    ///< multiplies what every op but a collective has to do: a GPU with a slower clock
  const MeetingScript* script = nullptr;  ///< what to answer to meetings; null: whoever runs the engine answers
  Draws kernel_draws = {};                ///< multiply it too, by op id
  RateTable* rates = nullptr;             ///< of the engine's table; null: they are found anew at each instant
  bool short_ways = true;                 ///< false: every instant the long way, for tests of the short ones
  /// Collectives run at a pace that set_pace() says: what the network leaves them is not looked at here.
  bool paced = false;
  /// Each op's Delays are found.
  bool tells_delays = false;
  /// Of kernels and copies all that they have to do counts in Delays, not what a program without factors has less: of
  /// ranks that run other kernels than others.
  bool all_work_delays = false;
};

/// What an engine tells of a joint collective.
struct Meeting {
  enum class Kind : std::uint8_t {
    arrived = 0,  ///< it has started: its other ranks may still be on their way
    done = 1,     ///< its own part is done
  };
  Kind kind = Kind::arrived;
  CommunicatorId communicator;
  OpId op;
  Nanoseconds at;
};

/// Few streams have ops in one step: compute, copies in and out, all-gathers, reduce-scatters, all-reduces.
template <class T>
using ByStream = SmallVector<T, 6>;
template <class T>
using ByCommunicator = SmallVector<T, 3>;

/// What an engine counts and expects as it goes on.
struct EngineCourse {
  std::size_t issued_ = 0;
  std::size_t ended_ = 0;
  std::int64_t gap_unfinished_ = 0;       // issued before now_ less those that have ended
  std::int64_t gap_next_ = kNever.count;  // the first of gap_issues_
  std::size_t persistents_ = 0;           // running ops that leave no SM to what comes later
  std::size_t mains_ = 0;                 // running kernels of the compute stream
  std::size_t sides_ = 0;                 // … of other streams
  std::size_t in_turn_ = 0;               // … of those that take turns with the compute stream's
  bool compute_next_ = false;             // one of those has ended, for which the compute stream waited
  std::int64_t sides_until_ = 0;          // until then a persistent kernel lets go before it what waits for one of them
  std::size_t moving_ = 0;                // running collectives that move bytes
  std::size_t waiting_ = 0;               // … that wait for other ranks
  std::int64_t now_ = 0;
  std::int64_t next_ = kNever.count;
  std::int64_t idle_for_ranks_ = 0;
  // Of all streams but the compute stream, as find_others() left it:
  std::int64_t others_next_ = 0;     // the first instant at which one is ready, is released or ends
  std::uint32_t awaited_place_ = 0;  // one of them waits for the compute stream's op there
  bool some_wait_for_sms_ = false;
  ByStream<std::uint32_t> beside_;  // those that run
};

class Engine : private EngineCourse {
 public:
  /// Both references must outlive the engine; the table may grow meanwhile.
  Engine(const MachineProfile& machine, const OpTable& table, const EngineOptions& options = {});
  ~Engine();

  /// The host has issued the table's next op. Times must not descend.
  void issue(Nanoseconds at) {
    const OpId id{static_cast<std::uint32_t>(issued_++)};
    const OpTable::Op& op = table_.ops().data()[id.value];
    if (op.stream.value >= streams_.size() ||
        (op.communicator.valid() && op.communicator.value >= communicators_.size()))
      grow();
    if (options_.keep_timings || op.lengthens_gaps) keep_issue(id, at);
    Stream& stream = streams_[op.stream.value];
    ++stream.issued;
    stream.issues.push(at.count);
    if (stream.head + 1 == stream.issued) issue_first(id);
  }

  /// Where Delays are told: of the host, which issues the next op.
  void issue_delays(const Delays& host);
  /// … of the op that ended last: what a host that was blocked goes on behind.
  [[nodiscard]] const Delays& last_delays() const { return delays_->last(); }
  /// … of the joint collective that a communicator is at, as it arrived.
  [[nodiscard]] const Delays& arrival_delays(CommunicatorId communicator) const {
    return delays_->first(stream_of(communicator));
  }
  /// … of a joint collective where it ends, before finish().
  void set_delays(CommunicatorId communicator, const Delays& delays) {
    delays_->communicator(communicator.value) = delays;
  }

  /// Processes everything that happens at or before `limit`.
  void advance(Nanoseconds limit) {
    while (next_ <= limit.count && next_ != kNever.count) process(next_, limit.count);
  }
  /// Processes the next instant at which something happens, and ones behind it, before `until`, of which nobody else
  /// need know; false where nothing ever will.
  bool advance_once(Nanoseconds until = kNever) {
    if (next_ == kNever.count) return false;
    process(next_, until.count);
    return true;
  }
  /// The next instant at which something happens; kNever where there is none.
  [[nodiscard]] Nanoseconds next() const { return {next_}; }

  [[nodiscard]] bool ended(OpId op) const {
    const OpTable::Op& about = table_.op(op);
    return about.stream.value < streams_.size() && about.place < streams_[about.stream.value].head;
  }
  [[nodiscard]] bool complete(EventId event) const;
  /// When a complete event completed; 0 where nothing had been issued before it. Needs kept timings.
  [[nodiscard]] Nanoseconds completion(EventId event) const;
  [[nodiscard]] std::size_t unfinished(StreamId stream) const {
    return stream.value < streams_.size() ? streams_[stream.value].issued - streams_[stream.value].head : 0;
  }
  [[nodiscard]] std::size_t unfinished() const { return issued_ - ended_; }
  /// How many ops of a stream have ended, and what the next one has left to do while it runs, in ns at kFullRate, begun
  /// ones among them; 0: it does not run, or is a collective.
  [[nodiscard]] std::uint32_t ended_on(StreamId stream) const {
    return stream.value < streams_.size() ? streams_[stream.value].head : 0;
  }
  [[nodiscard]] std::int64_t left_on(StreamId stream) const;
  /// How far a joint collective is; everything else is `open`.
  enum class Gate : std::uint8_t { open = 0, arrived = 1, moving = 2, done = 3 };
  /// The collective that a communicator is at.
  struct CollectiveCourse {
    std::uint32_t place = 0;  ///< among its communicator's
    Gate gate = Gate::open;   ///< open: it has not begun
    std::int64_t left = 0;    ///< ns at kFullRate, once it has begun
    std::int64_t pace = kFullRate;
  };
  [[nodiscard]] CollectiveCourse collective(CommunicatorId communicator) const;
  /// The last instant processed.
  [[nodiscard]] Nanoseconds now() const { return {now_}; }
  /// Start and end of ops that have not come to it are kNever. Empty where timings are not kept.
  [[nodiscard]] std::span<const OpTiming> timings() const { return timings_; }
  /// How long the compute stream's next op was issued and could not start, and none ran, while a joint collective
  /// waited for other ranks.
  [[nodiscard]] Nanoseconds idle_for_ranks() const { return {idle_for_ranks_}; }
  /// What the engine's future depends on, in hashes: times from now() on, ops as they lie to `op`. Two engines, or one
  /// at two times, go on alike where both hashes are equal, the table is alike around both ops, and whoever answers
  /// their meetings does; where many engines of a job have the same `rounds`, no collective has begun, or is done, on
  /// some of them only.
  struct State {
    std::uint64_t own = 0;
    std::uint64_t rounds = 0;  ///< how far each communicator's collectives are
    bool operator==(const State&) const = default;
  };
  /// None while a collective has no answer, or where an op before `first` has not ended; nor of paced engines and of
  /// ones with a script.
  [[nodiscard]] std::optional<State> state(OpId op, OpId first) const;
  /// Every stream whose first op cannot go on, once advance_once() is false and ops are unfinished.
  [[nodiscard]] std::vector<Stuck> stuck() const;

  /// Since clear_meetings().
  [[nodiscard]] std::span<const Meeting> meetings() const { return {meetings_.begin(), meetings_.size()}; }
  void clear_meetings() { meetings_.clear(); }
  /// The one meeting, which is then cleared; none where there are several, or none.
  [[nodiscard]] std::optional<Meeting> take_meeting() {
    if (meetings_.size() != 1) return std::nullopt;
    meetings_.clear();
    return meetings_[0];
  }
  /// Every rank of the communicator's present collective is there at `at`, which is not before now().
  void release(CommunicatorId communicator, Nanoseconds at);
  /// The slowest rank's part ends at `at`, not before now(): so does this one's.
  void finish(CommunicatorId communicator, Nanoseconds at);
  /// The communicator's present collective, if its own part is not done, runs at `pace` from `at` on, which is not
  /// before now(). Every collective begins at kFullRate; at pace 0 it stands: it holds its SMs and moves nothing.
  void set_pace(CommunicatorId communicator, std::int64_t pace, Nanoseconds at);

  /// Where rewind() goes back to: now, with no meetings to take. Of engines that keep no timings and have no script.
  void mark();
  /// To the last mark(), any number of times; issues since then are undone as well.
  void rewind();

  /// Behind the last byte of the engine that an instant may need.
  [[nodiscard]] const void* end_of_state() const { return streams_.inside_end(); }
  /// Begins to bring times of ops, and its mark, into the cache, once the engine is there.
  void prefetch_times() const;

 private:
  struct StreamCourse {
    std::uint32_t head = 0;                  // place of the first unfinished op
    std::uint32_t issued = 0;                // ops
    std::uint32_t first = 0;                 // the op at `head`, where it is issued
    std::int64_t earliest = 0;               // end of the previous op + gap to a kernel
    std::int64_t earliest_copy = 0;          // … to a copy
    std::int64_t work = 0;                   // of the running op, in 1/2^20 ns
    std::int64_t start = 0;                  // of the running op
    std::int64_t release_at = kNever.count;  // of a joint collective that has arrived
    std::int64_t pace = kFullRate;           // of the running op, where it is a collective
    std::int64_t waits_since = 0;            // Lane::waits_for_sms: when that op could have begun
    RecentTimes ends;                        // of ops before it
  };
  struct Stream : StreamCourse {
    IssueTimes issues;                  // of ops from `head` on
    std::span<const PaceChange> paces;  // of a script: still to come
  };
  /// What every instant looks at.
  struct Lane {
    std::int64_t ready_at = kNever.count;  // of the first op; never: it waits for something
    std::int64_t finish = kNever.count;    // of the running op
    std::int64_t remaining = 0;            // in 1/2^20 ns
    std::int64_t rate = 0;                 // 0: nothing runs
    bool queued = false;                   // its first unfinished op is issued
    bool running = false;
    bool waits_for_sms = false;  // its first op could run but for persistent kernels
    bool early = false;          // the running op did not wait for them: early()
    Gate gate = Gate::open;
  };
  struct Communicator {
    std::uint32_t head = 0;     // place of the first unfinished op
    std::int64_t earliest = 0;  // end of the previous collective + gap
  };

  void grow();
  void keep_issue(OpId id, Nanoseconds at);
  void issue_first(OpId id);
  void answer_by_script();
  [[nodiscard]] const MeetingTimes* scripted(const Meeting& meeting) const;
  bool take_paces(std::int64_t at);
  [[nodiscard]] bool has_pace(std::uint32_t stream) const {
    return options_.paced && first(stream).communicator.valid();
  }
  void process(std::int64_t at, std::int64_t until);
  bool process_compute(std::int64_t at, std::int64_t until);
  bool report_done(std::int64_t at);
  bool open_gates(std::int64_t at);
  bool end_finished(std::int64_t at);
  void end_first(std::uint32_t stream, std::int64_t at);
  [[nodiscard]] std::int64_t kernel_gap(std::int64_t at);
  void leave_gap(std::uint32_t stream, const OpTable::Op& behind, std::int64_t at, std::int64_t gap);
  bool start_ready(std::int64_t at);
  void start(std::uint32_t stream, std::int64_t at);
  [[nodiscard]] const OpTable::Op& first(std::uint32_t stream) const { return first(streams_[stream]); }
  [[nodiscard]] const OpTable::Op& first(const Stream& stream) const { return table_.ops().data()[stream.first]; }
  [[nodiscard]] bool has_stopped(std::uint32_t stream) const {
    return waits(lanes_[stream]) || (streams_[stream].pace == 0 && has_pace(stream));
  }
  /// Of the compute stream's next op: kernels of other streams leave it no SM.
  [[nodiscard]] bool held_up(const OpTable::Op& op) const {
    return (op.persistent && sides_ > 0) || (op.main && in_turn_ > 0);
  }
  static void stop(Lane& lane) {
    lane.rate = 0;
    if (lane.gate == Gate::moving) lane.finish = kNever.count;
  }
  [[nodiscard]] static bool waits(const Lane& lane) { return lane.gate == Gate::arrived || lane.gate == Gate::done; }
  [[nodiscard]] std::uint32_t stream_of(CommunicatorId communicator) const;
  void progress(std::int64_t to);
  void update_rates(std::int64_t at);
  void run_alone(std::uint32_t stream, std::int64_t at);
  bool run_pair(std::uint32_t stream, std::int64_t at);
  void run_all(std::int64_t at);
  void set_finish(Lane& lane, const OpTable::Op& op, std::int64_t at);
  void find_ready(std::uint32_t stream);
  void find_delays(std::uint32_t stream);
  void end_delays(std::uint32_t stream);
  void find_next();
  void find_others();
  [[nodiscard]] std::int64_t others_end() const;
  void count_gap_issues(std::int64_t before);
  void drop_gap_issues();
  [[nodiscard]] bool all_gather_queued(std::int64_t at);

  const MachineProfile& machine_;
  const OpTable& table_;
  EngineOptions options_;
  SmallVector<Meeting, 2> meetings_;
  ByCommunicator<Communicator> communicators_;
  ByStream<Lane> lanes_;
  ByStream<Stream> streams_;
  // What most instants leave alone:
  std::vector<OpTiming> timings_;         // by op, where they are kept
  std::vector<std::int64_t> gap_issues_;  // issue times of ops that lengthen gaps, ascending, not yet counted
  std::size_t gap_first_ = 0;             // of gap_issues_
  std::vector<RunningOp> paced_ops_;      // scratch of run_all
  std::unique_ptr<DelayTrack> delays_;    // null: nobody asks for them
  struct Mark;
  std::unique_ptr<Mark> mark_;  // null: there is none
};

}  // namespace foreshard::sim
