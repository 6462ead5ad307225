// What a host program put on its streams, in the order of its calls: which ops there are and what each waits for.
//
// Who: sim_device.hpp fills one as its program runs; Engine (engine.hpp) plays it. Says nothing of time but how much
// work an op is, so that any number of engines, each a rank of its own, play one table. Only ever grows.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/device/device.hpp"
#include "sim/engine/contention.hpp"

namespace foreshard::sim {

/// One op as the engine sees it.
struct EngineOp {
  StreamId stream;
  CommunicatorId communicator;  ///< invalid: none
  RunningOp running_op;
  Nanoseconds work;             ///< alone; at most kLongestOp
  bool is_copy = false;         ///< a memory copy, or a CUDA graph's memset: copy_gap before and after it
  bool lengthens_gaps = false;  ///< an all-gather ring kernel: kernel_gap_all_gather while issued and unfinished
  bool endless = false;         ///< starts, and never ends: its peers do not come
  bool nothing = false;         ///< no kernel at all: it only has a place in the order, and no gap follows it
  bool of_graph = false;        ///< a node of a CUDA graph: graph_gap to the next, and no launch queue to wait for
};

/// A place in OpTable::running_ops() that is not known.
inline constexpr std::uint32_t kNoRunningOp = UINT32_MAX;

class OpTable {
 public:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  struct Op {
    std::int64_t work = 0;  ///< in 1/2^kWorkShift ns
    Range waits_for;        ///< of awaited()
    StreamId stream;
    std::uint32_t place = 0;  ///< in its stream, from 0
    CommunicatorId communicator;
    std::uint32_t communicator_place = 0;  ///< among its communicator's
    std::uint32_t running_op = 0;          ///< of running_op()
    std::uint32_t behind = 0;              ///< the next op of its stream, once there is one
    bool needs_sms = false;   ///< starts before kernels of the compute stream do, and waits for resident ones
    bool persistent = false;  ///< a kernel of the compute stream that leaves no SM to what comes later
    bool main = false;        ///< a kernel of the compute stream
    bool side = false;        ///< a kernel of another stream
    bool in_turn = false;     ///< RunningOp::in_turn
    bool is_copy = false;
    bool lengthens_gaps = false;
    bool endless = false;
    bool nothing = false;
    bool of_graph = false;
  };

  StreamId add_stream();
  CommunicatorId add_communicator();
  /// `running_op`: the place of the op's in running_ops(), as an equal one's Op::running_op has it; where it is not
  /// known it is looked up.
  OpId submit(const EngineOp& op, std::uint32_t running_op = kNoRunningOp);
  /// An event at the stream's end: complete once all that the stream holds or waits for now has ended.
  EventId record(StreamId stream);
  void wait(StreamId stream, EventId event);

  [[nodiscard]] const std::vector<Op>& ops() const { return ops_; }
  [[nodiscard]] const Op& op(OpId id) const { return ops_[id.value]; }
  [[nodiscard]] const RunningOp& running_op(const Op& op) const { return running_ops_[op.running_op]; }
  /// waiting() of it.
  [[nodiscard]] const RunningOp& waiting_op(const Op& op) const { return waiting_ops_[op.running_op]; }
  /// early() of it.
  [[nodiscard]] const RunningOp& early_op(const Op& op) const { return early_ops_[op.running_op]; }
  /// By Op::running_op; each once.
  [[nodiscard]] const std::vector<RunningOp>& running_ops() const { return running_ops_; }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }
  [[nodiscard]] std::size_t communicators() const { return communicators_.size(); }
  /// Op ids in order.
  [[nodiscard]] const std::vector<std::uint32_t>& stream_ops(std::uint32_t stream) const {
    return streams_[stream].ops;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& communicator_ops(std::uint32_t communicator) const {
    return communicators_[communicator];
  }
  [[nodiscard]] std::span<const std::uint32_t> awaited(Range range) const {
    return {wait_pool_.data() + range.begin, range.count};
  }
  /// Ops whose ends complete `event`, at most one a stream.
  [[nodiscard]] std::span<const std::uint32_t> awaited(EventId event) const { return awaited(events_[event.value]); }

 private:
  struct Stream {
    std::vector<std::uint32_t> ops;
    std::vector<std::uint32_t> waits;  // what the next op waits for, at most one op a stream
  };

  [[nodiscard]] std::uint32_t index_of(const RunningOp& running_op);
  void add_wait(std::vector<std::uint32_t>& waits, std::uint32_t op) const;

  std::vector<Op> ops_;
  std::vector<RunningOp> running_ops_;  // distinct ones
  std::vector<RunningOp> waiting_ops_;
  std::vector<RunningOp> early_ops_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_of_running_op_;  // by hash
  std::vector<Stream> streams_;
  std::vector<std::vector<std::uint32_t>> communicators_;
  std::vector<std::uint32_t> wait_pool_;  // op ids; Range points here
  std::vector<Range> events_;
};

}  // namespace foreshard::sim
