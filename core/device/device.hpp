// The seam: what a back end must do so that one host program can run on it.
//
// Who: core/step drives a Device; sim/ implements it in virtual time, gpu/ on CUDA and NCCL, and
// tests/contract/scripted_device.hpp with answers a test writes down. tests/contract/device_contract.hpp
// is the suite each of them passes.
//
// Thread safety: one thread at a time. Determinism: on a virtual device the same calls give the same
// answers and the same timings.
//
// The host program never branches on where it runs. It learns from the device only what PyTorch's
// host learns: whether an event has completed, whether memory could be had, what time it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"
#include "core/device/stream_events.hpp"
#include "core/kernel/kernel.hpp"
#include "core/kernel/kernel_work.hpp"

namespace foreshard {

struct StreamOptions {
  std::string name;  ///< "compute", "all-gather", …; unique on the device
  int priority = 0;  ///< CUDA's: −1 is higher than 0
};

struct CommunicatorOptions {
  std::string name;  ///< "world", "shard", "replicate", …
  std::uint32_t ranks = 1;
  std::uint32_t ranks_per_node = 1;  ///< how many of them share this rank's node
  /// The global ranks of the group, in its order; empty: a device of one process knows no others.
  std::vector<std::uint32_t> members = {};
  /// Of a group on several nodes: how many nodes further its next node is; groups on the nodes between run beside it.
  std::uint32_t node_stride = 1;
  std::uint32_t all_nodes = 0;  ///< of the run; 0: no more than the group and those beside it
};

/// When an op ran, on the device's clock. `issue` ≤ `start` ≤ `end`.
struct OpTiming {
  /// The start of an op that never began, and the end of one that never ended, where a host stops for ever
  /// (host_stopped.hpp).
  static constexpr Nanoseconds kNever{INT64_MAX};
  Nanoseconds issue;  ///< the host's call
  Nanoseconds start;
  Nanoseconds end;
};

/// One kernel as it is put on a stream: what it costs and, where that is known, what it computes on which memory.
struct KernelLaunch {
  const KernelWork& cost;
  const Kernel* kernel = nullptr;           ///< null: known by its cost alone (captures, files)
  std::span<const Address> addresses = {};  ///< by operand of `kernel`, 0 where one is absent
};

/// Ten verbs and CUDA graphs, in addition to the three of StreamEvents.
class Device : public StreamEvents {
 public:
  /// A new stream. Stream 0 (the default stream, named "compute", priority 0) exists from the start.
  virtual StreamId create_stream(const StreamOptions& options) = 0;
  /// A new communicator. Kernels of one communicator run strictly in the order of their issue, even
  /// on different streams (NCCL; fsdp2 semantics 5.4).
  virtual CommunicatorId create_communicator(const CommunicatorOptions& options) = 0;

  /// Puts work at the end of a stream and returns at once, unless the stream's launch queue is full:
  /// then the host waits for room. Ids count from 0 in issue order over all streams.
  /// A device that prices looks at the cost; one that runs real work runs `kernel`, or a stand-in of that cost.
  virtual OpId launch(StreamId stream, const KernelLaunch& kernel) = 0;
  OpId launch(StreamId stream, const KernelWork& cost) { return launch(stream, KernelLaunch{cost}); }
  virtual OpId copy(StreamId stream, const CopyWork& work) = 0;
  virtual OpId collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) = 0;

  /// cudaStreamWaitEvent: work put on `stream` from now on starts after `event` has completed.
  virtual void stream_wait_event(StreamId stream, EventId event) = 0;
  /// cudaDeviceSynchronize: moves the host's time to the completion of all work.
  virtual void synchronize() = 0;

  /// The host computes for `length` before its next call. Virtual time passes in sim; nothing happens
  /// on a real GPU, whose host takes the time it takes.
  virtual void host_work(Nanoseconds length) = 0;
  [[nodiscard]] virtual Nanoseconds host_now() = 0;

  /// What is issued until end_graph_launch() are nodes of one CUDA graph, which the host launches with one call
  /// (cudaGraphLaunch): no node waits for the host's program, and none finds a launch queue full. Streams and events
  /// between them are the graph's edges. A device has one graph: every launch makes the calls of the first, on the same
  /// operands, and neither synchronises nor asks for events. Nothing outside waits for an event recorded inside; what a
  /// stream is given before or behind a launch runs before or after what the launch has on that stream. Only where
  /// can_launch_graphs().
  [[nodiscard]] virtual bool can_launch_graphs() const { return false; }
  virtual void begin_graph_launch() {}
  virtual void end_graph_launch() {}

  /// Timings of all ops so far, by OpId. Requires synchronize() since the last op.
  [[nodiscard]] virtual std::span<const OpTiming> timings() const = 0;

  /// As cudaStreamSynchronize: moves the host's time to the completion of all work on `stream`.
  void synchronize_stream(StreamId stream) { synchronize_event(record_event(stream)); }
};

}  // namespace foreshard
