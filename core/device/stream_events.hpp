// Events of streams: what the caching allocator needs to know of a device.
//
// Who: Device implements it; core/allocator/replay_driver.hpp answers from a recording.
#pragma once

#include "core/base/quantity.hpp"

namespace foreshard {

/// What the caching allocator needs of a device's events; a subset of Device so that a replay can
/// answer from a recording (core/allocator/replay.hpp).
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  /// cudaEventRecord: completes when all work put on `stream` before this call has.
  virtual EventId record_event(StreamId stream) = 0;
  /// cudaEventQuery at the host's present time. Never blocks, takes no host time.
  [[nodiscard]] virtual bool event_complete(EventId event) = 0;
  /// cudaEventSynchronize: moves the host's time to the event's completion if that is later.
  virtual void synchronize_event(EventId event) = 0;
};

}  // namespace foreshard
