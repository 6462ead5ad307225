// When the GPU ran what: kernels, copies and memsets with their timestamps, by the op that issued them, through CUPTI's
// activity interface. Timestamps come on the host's steady clock, because CUPTI is told to use it.
//
// Who: CudaDevice, while it records. libcupti.so.13 is opened when the first recording starts: nothing links against
// it, and a machine without it falls back to CUDA events (cuda_device.hpp). CUPTI has one state a process, so there is
// one recording at a time. start() before, and stop() after the ops, with the device synchronised. Thread safety: one
// thread; CUPTI's own thread hands the records over under a lock.
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
  std::uint64_t op = 0;  ///< what push() was given
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
  /// All activities so far, in order of their start. Requires a synchronised device. `dropped`: records that CUPTI
  /// lost.
  [[nodiscard]] Result<std::vector<Activity>> collect();
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  ActivityRecording() = default;
};

}  // namespace foreshard::gpu
