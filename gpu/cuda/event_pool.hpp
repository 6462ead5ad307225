// CUDA events by EventId: an id means one recording and stays valid for ever; the events behind them are used again.
//
// Who: CudaDevice. One thread. An event goes back to the pool once it is known to be complete; streams are polled for
// that, oldest recording first, when the pool runs dry, since FSDP2 never asks for most of its events.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::gpu {

class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// cudaEventRecord. Streams are numbered as the device does.
  [[nodiscard]] EventId record(StreamId stream, cudaStream_t handle);
  /// The id of a recording that is complete for all who ask: one inside of a CUDA graph.
  [[nodiscard]] EventId completed();
  /// cudaEventQuery.
  [[nodiscard]] bool complete(EventId id);
  void synchronize(EventId id);
  /// cudaStreamWaitEvent; nothing for an event that is known to be complete.
  void wait(cudaStream_t stream, EventId id);
  /// Every recording so far is complete: the device was synchronised.
  void all_complete();

 private:
  [[nodiscard]] cudaEvent_t take();
  void give_back(EventId id);
  void collect();

  std::vector<cudaEvent_t> event_of_;           // by EventId; null: complete
  std::vector<std::deque<EventId>> of_stream_;  // in order of recording, complete ones dropped from the front
  std::vector<cudaEvent_t> free_;
};

}  // namespace foreshard::gpu
