// Puts ops on a Device's streams and writes each into the Run; or, while a CUDA graph is captured, into the graph.
//
// Who: the lowerings, for every kernel, copy and collective of a step; StepBackend for events; the runner for graphs.
#pragma once

#include <optional>
#include <vector>

#include "core/device/device.hpp"
#include "core/step/captured_graph.hpp"
#include "core/step/run_recorder.hpp"

namespace foreshard {

/// A kernel with its addresses, by operand. `kernel` is valid until the next call of the object that gave it.
struct BoundKernel {
  const Kernel* kernel = nullptr;
  std::vector<Address> addresses;
};

class OpEmitter {
 public:
  /// Both must outlive this.
  OpEmitter(Device& device, RunRecorder& recorder) : device_(device), recorder_(recorder) {}

  /// Host time before the next op.
  void host_work(Nanoseconds length) {
    if (!capturing_ || capture_takes_time_) device_.host_work(length);
  }
  [[nodiscard]] Nanoseconds host_now() { return device_.host_now(); }

  // `unit`: whose op it is; invalid for the user's own.
  void kernel(StreamId on, const KernelWork& work, UnitId unit);
  void compute(StreamId on, const KernelWork& work, const BoundKernel& bound, UnitId unit);
  void copy(StreamId on, const CopyWork& work, UnitId unit);
  void collective(StreamId on, const CollectiveWork& work, CommunicatorId over, UnitId unit);

  [[nodiscard]] EventId record_event(StreamId on);
  void wait_event(StreamId on, EventId event);

  /// From now on ops and events are nodes and edges of a graph, and reach the device with launch() (torch.cuda.graph).
  /// An event of before is complete: the capture begins on a synchronised device. `takes_time`: of the host.
  void begin_capture(bool takes_time) {
    capturing_ = true;
    capture_takes_time_ = takes_time;
  }
  void end_capture() { capturing_ = false; }
  [[nodiscard]] bool capturing() const { return capturing_; }
  /// One of the phases' hooks, at its place among the nodes.
  void captured_hook(Hook hook);
  /// One of FSDP2's sections begins or ends; both must outlive the graph. Nothing outside of a capture.
  void begin_section(const SectionCost& section, const std::string& unit);
  void end_section();
  /// cudaGraphLaunch of what was captured; `hook` hears the phases' hooks.
  template <class OnHook>
  void launch(OnHook hook);

  [[nodiscard]] std::uint64_t ops() const { return ops_; }
  /// Of those so far.
  [[nodiscard]] std::optional<OpId> last_compute_op() const { return last_compute_op_; }

 private:
  void count(OpId op, StreamId on) {
    ++ops_;
    if (on == kComputeStream) last_compute_op_ = op;
  }

  void issue(const GraphNode& node, std::vector<EventId>& events);
  void mark(const GraphNode& node);

  Device& device_;
  RunRecorder& recorder_;
  std::optional<OpId> last_compute_op_;
  std::uint64_t ops_ = 0;
  CapturedGraph graph_;
  Nanoseconds section_start_;  // of the launch
  bool capturing_ = false;
  bool capture_takes_time_ = true;
};

template <class OnHook>
void OpEmitter::launch(OnHook hook) {
  std::vector<EventId> events(graph_.events);
  device_.begin_graph_launch();
  for (const GraphNode& node : graph_.nodes) {
    if (node.kind < GraphNode::Kind::hook) {
      issue(node, events);
      continue;
    }
    mark(node);
    if (node.kind == GraphNode::Kind::hook) hook(node.hook);
  }
  device_.end_graph_launch();
}

}  // namespace foreshard
