// When the GPU ran what: kernels, copies and memsets with their timestamps, by the op that issued them, through CUPTI's
// activity interface. Timestamps come on the host's steady clock, because CUPTI is told to use it.
//
// Who: CudaDevice, while it records. libcupti.so.13 is opened when the first recording starts: nothing links against
// it, and a machine without it falls back to CUDA events (cuda_device.hpp). CUPTI has one state a process, so there is
// one recording at a time. Kernels of a CUDA graph come with the launch that they are of and their node, whose id CUPTI
// tells as the node is made and as it is copied into the executable graph. start() before, and stop() after the ops,
// with the device synchronised. Thread safety: one thread; CUPTI's own thread hands the records over under a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::gpu {

/// One kernel, copy or memset.
struct Activity {
  std::uint64_t op = 0;  ///< what push() was given, of a node that and node()'s number
  Nanoseconds start;     ///< on std::chrono::steady_clock
  Nanoseconds end;
};

class ActivityRecording {
 public:
  /// Errors: no libcupti.so.13, or CUPTI refuses (another profiler holds it, permissions).
  [[nodiscard]] static Result<std::unique_ptr<ActivityRecording>> start();
  ~ActivityRecording();
  ActivityRecording(const ActivityRecording&) = delete;
  ActivityRecording& operator=(const ActivityRecording&) = delete;

  /// What is issued between push() and pop() on this thread belongs to `op`.
  void push(std::uint64_t op);
  void pop();
  /// Around a launch of a CUDA graph, its capture and its executable form included: nodes that are made behind node()
  /// have that number. A launch between push() and pop() runs them as op + number.
  void begin_nodes();
  void node(std::uint64_t number);
  void end_nodes();
  /// All activities so far, in order of their start. Requires a synchronised device. `dropped`: records that CUPTI
  /// lost.
  [[nodiscard]] Result<std::vector<Activity>> collect();
  [[nodiscard]] std::uint64_t dropped() const;
  /// Activities of nodes that have no number: left out of collect(). As of its last call.
  [[nodiscard]] std::uint64_t unnamed() const { return unnamed_; }

 private:
  ActivityRecording() = default;

  std::uint64_t unnamed_ = 0;
};

}  // namespace foreshard::gpu
