#include "gpu/cuda/event_pool.hpp"

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

bool is_complete(cudaEvent_t event) {
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // an answer, not a failure: clear it
    return false;
  }
  require(code, "cudaEventQuery");
  return true;
}

}  // namespace

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) static_cast<void>(cudaEventDestroy(event));
  for (cudaEvent_t event : event_of_)
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
}

void EventPool::give_back(EventId id) {
  cudaEvent_t& event = event_of_[id.value];
  if (event == nullptr) return;
  free_.push_back(event);
  event = nullptr;
}

void EventPool::collect() {
  for (std::deque<EventId>& ids : of_stream_) {
    while (!ids.empty()) {
      const cudaEvent_t event = event_of_[ids.front().value];
      if (event != nullptr && !is_complete(event)) break;
      give_back(ids.front());
      ids.pop_front();
    }
  }
}

cudaEvent_t EventPool::take() {
  if (free_.empty()) collect();
  if (free_.empty()) {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  const cudaEvent_t event = free_.back();
  free_.pop_back();
  return event;
}

EventId EventPool::record(StreamId stream, cudaStream_t handle) {
  const EventId id{static_cast<std::uint32_t>(event_of_.size())};
  const cudaEvent_t event = take();
  event_of_.push_back(event);
  if (of_stream_.size() <= stream.value) of_stream_.resize(stream.value + 1U);
  of_stream_[stream.value].push_back(id);
  require(cudaEventRecord(event, handle), "cudaEventRecord");
  return id;
}

EventId EventPool::completed() {
  event_of_.push_back(nullptr);
  return EventId{static_cast<std::uint32_t>(event_of_.size() - 1)};
}

bool EventPool::complete(EventId id) {
  const cudaEvent_t event = event_of_[id.value];
  if (event == nullptr) return true;
  if (!is_complete(event)) return false;
  give_back(id);
  return true;
}

void EventPool::synchronize(EventId id) {
  if (event_of_[id.value] == nullptr) return;
  require(cudaEventSynchronize(event_of_[id.value]), "cudaEventSynchronize");
  give_back(id);
}

void EventPool::wait(cudaStream_t stream, EventId id) {
  if (event_of_[id.value] == nullptr) return;
  require(cudaStreamWaitEvent(stream, event_of_[id.value], 0), "cudaStreamWaitEvent");
}

void EventPool::all_complete() {
  for (std::deque<EventId>& ids : of_stream_) {
    for (const EventId id : ids) give_back(id);
    ids.clear();
  }
}

}  // namespace foreshard::gpu
