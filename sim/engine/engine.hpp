// The event-driven core of the simulator: ops on streams, what they wait for, and how fast they run.
//
// Who: SimDevice (sim/engine/sim_device.hpp) submits ops in host order and moves the simulated time on. Knows
// nothing of the host's clock except each op's issue time, nothing of prices, nothing of memory.
//
// When an op may start: it is the first unfinished one of its stream and of its communicator, every op it
// waits for has ended, and each of these has passed:
//   issue + launch · end of its stream's previous op + gap · end of an awaited op + event_wait
//   · end of its communicator's previous collective + communicator_gap          (docs/model.md, "Streams")
// A collective that needs SMs and a kernel of another stream wait, beyond that, while a persistent kernel runs, and a
// persistent kernel while a kernel of another stream does (docs/contention.md, "Arrival" and "Kernels of other
// streams"). While several run, each progresses at the rate of contention.hpp; work is conserved.
//
// Determinism: integer time; at one instant everything that ends does so before anything starts, each in
// order of stream id. Results do not depend on how often or how far advance() is called, as long as no op
// is submitted with an issue time before the limit of an earlier call.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/device/device.hpp"
#include "sim/engine/contention.hpp"
#include "sim/engine/deadlock.hpp"

namespace foreshard::sim {

/// An instant that is never reached.
inline constexpr Nanoseconds kNever{std::numeric_limits<std::int64_t>::max()};

/// One op as the engine sees it.
struct EngineOp {
  StreamId stream;
  CommunicatorId communicator;  ///< invalid: none
  RunningOp running_op;
  Nanoseconds issue;
  Nanoseconds work;             ///< alone; at most kLongestOp
  bool is_copy = false;         ///< a memory copy: copy_gap before and after it
  bool lengthens_gaps = false;  ///< an all-gather ring kernel: kernel_gap_all_gather while issued and unfinished
  bool endless = false;         ///< starts, and never ends: its peers do not come
  bool nothing = false;         ///< no kernel at all: it only has a place in the order, and no gap follows it
};

class Engine {
 public:
  /// `machine` must outlive the engine.
  explicit Engine(const MachineProfile& machine) : machine_(machine) {}

  StreamId add_stream();
  CommunicatorId add_communicator();
  /// Issue times must not descend.
  OpId submit(const EngineOp& op);
  /// An event at the stream's end: complete once all that the stream holds or waits for now has ended.
  EventId record(StreamId stream);
  void wait(StreamId stream, EventId event);

  /// Processes everything that happens at or before `limit`.
  void advance(Nanoseconds limit) {
    while (next_ <= limit.count && next_ != kNever.count) process(next_);
  }
  /// Processes the next instant at which something happens; false where nothing ever will.
  bool advance_once() {
    if (next_ == kNever.count) return false;
    process(next_);
    return true;
  }

  [[nodiscard]] bool ended(OpId op) const { return timings_[op.value].end != kNever; }
  [[nodiscard]] bool complete(EventId event) const;
  /// When a complete event completed; 0 where nothing had been issued before it.
  [[nodiscard]] Nanoseconds completion(EventId event) const;
  [[nodiscard]] std::size_t unfinished(StreamId stream) const {
    return streams_[stream.value].queue.size() - streams_[stream.value].head;
  }
  [[nodiscard]] std::size_t unfinished() const { return timings_.size() - ended_; }
  /// The last instant processed.
  [[nodiscard]] Nanoseconds now() const { return {now_}; }
  /// Start and end of ops that have not come to it are kNever.
  [[nodiscard]] std::span<const OpTiming> timings() const { return timings_; }
  /// Every stream whose first op cannot go on, once advance_once() is false and ops are unfinished.
  [[nodiscard]] std::vector<Stuck> stuck() const;

 private:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  struct Pending {  // an op as it waits
    std::int64_t work;
    Range waits_for;
    CommunicatorId communicator;
    PackedRunningOp running_op;
    bool is_copy;
    bool lengthens_gaps;
    bool endless;
    bool nothing;
  };
  struct Stream {
    std::vector<std::uint32_t> queue;  // op ids
    std::size_t head = 0;              // first unfinished
    std::vector<std::uint32_t> waits;  // what the next op waits for, at most one op a stream
    std::int64_t ready_at = kNever.count;
    std::int64_t earliest = 0;       // end of the previous op + gap to a kernel
    std::int64_t earliest_copy = 0;  // … to a copy
    std::int64_t remaining = 0;      // of the running op, in 1/2^20 ns
    std::int64_t rate = 0;
    std::int64_t finish = kNever.count;
    bool running = false;
    bool waits_for_sms = false;  // its first op could run but for persistent kernels
  };
  struct Communicator {
    std::vector<std::uint32_t> queue;
    std::size_t head = 0;
    std::int64_t earliest = 0;  // end of the previous collective + gap
  };

  void process(std::int64_t at);
  bool end_finished(std::int64_t at);
  bool start_ready(std::int64_t at);
  bool start(Stream& stream, std::int64_t at);
  [[nodiscard]] const Pending& first(const Stream& stream) const { return ops_[stream.queue[stream.head]]; }
  void progress(std::int64_t to);
  void update_rates(std::int64_t at);
  void find_ready(Stream& stream);
  void find_next();
  [[nodiscard]] bool all_gather_queued(std::int64_t at);
  static void add_wait(std::vector<std::uint32_t>& waits, std::uint32_t op, std::span<const StreamId> stream_of);

  const MachineProfile& machine_;
  std::vector<Stream> streams_;
  std::vector<Communicator> communicators_;
  std::vector<Pending> ops_;
  std::vector<OpTiming> timings_;
  std::vector<StreamId> stream_of_;       // by op
  std::vector<std::uint32_t> wait_pool_;  // op ids; Range points here
  std::vector<Range> events_;
  std::vector<std::int64_t> gap_issues_;  // issue times of ops that lengthen gaps, ascending
  std::size_t gap_issued_ = 0;            // how many of them were issued before now_
  std::size_t gap_ended_ = 0;
  std::size_t ended_ = 0;
  std::size_t persistents_ = 0;  // running ops that leave no SM to what comes later
  std::size_t sides_ = 0;        // running kernels of other streams than the compute stream
  std::int64_t now_ = 0;
  std::int64_t next_ = kNever.count;
  std::vector<std::uint32_t> running_;  // stream ids, scratch of update_rates
  std::vector<RunningOp> running_ops_;
  std::vector<Share> shares_;
  std::vector<std::int64_t> rates_;
  std::vector<std::uint32_t> just_ended_;  // stream ids, scratch of process
};

}  // namespace foreshard::sim
