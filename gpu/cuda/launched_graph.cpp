#include "gpu/cuda/launched_graph.hpp"

#include <fmt/core.h>

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

cudaEvent_t plain_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

Bytes free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

}  // namespace

cudaEvent_t LaunchedGraph::event_of(std::size_t stream) {
  while (ends_.size() <= stream) ends_.push_back(plain_event());
  return ends_[stream];
}

void LaunchedGraph::fork(std::span<const cudaStream_t> streams) {
  require(cudaEventRecord(event_of(0), streams[0]), "cudaEventRecord (fork)");
  for (const cudaStream_t stream : streams.subspan(1))
    require(cudaStreamWaitEvent(stream, event_of(0), 0), "cudaStreamWaitEvent (fork)");
}

void LaunchedGraph::join(std::span<const cudaStream_t> streams) {
  for (std::size_t i = 1; i < streams.size(); ++i) {
    require(cudaEventRecord(event_of(i), streams[i]), "cudaEventRecord (join)");
    require(cudaStreamWaitEvent(streams[0], event_of(i), 0), "cudaStreamWaitEvent (join)");
  }
}

void LaunchedGraph::begin(std::span<const cudaStream_t> streams) {
  ops_ = 0;
  if (exec_ != nullptr) {
    state_ = State::replaying;
    return;
  }
  launching_ = streams[0];
  require(cudaStreamBeginCapture(launching_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  state_ = State::capturing;
  fork(streams);
}

void LaunchedGraph::require_captured(const Result<void>& put, cudaStream_t stream, const std::string& name) const {
  cudaStreamCaptureStatus status{};
  const cudaError_t asked = cudaStreamIsCapturing(stream, &status);
  if (put && asked == cudaSuccess && status == cudaStreamCaptureStatusActive) return;
  static_cast<void>(cudaGetLastError());
  const std::string why = !put                   ? put.error().what
                          : asked != cudaSuccess ? check(asked, "cudaStreamIsCapturing").error().what
                          : status == cudaStreamCaptureStatusInvalidated
                              ? std::string("it made a call that a capture does not allow")
                              : std::string("its stream is no part of the capture");
  throw DeviceFailure(
      {put ? ErrorKind::mismatch : put.error().kind,
       fmt::format("op {} of the step's passes ('{}') cannot be captured in a CUDA graph: {}", ops_ - 1, name, why),
       {},
       "take --cuda-graph none"});
}

void LaunchedGraph::record(EventId event, cudaStream_t stream) {
  if (state_ != State::capturing) return;
  const cudaEvent_t made = events_.emplace(event, plain_event()).first->second;
  require(cudaEventRecord(made, stream), "cudaEventRecord (capture)");
}

void LaunchedGraph::wait(cudaStream_t stream, EventId event) const {
  if (state_ != State::capturing) return;
  if (const auto found = events_.find(event); found != events_.end())
    require(cudaStreamWaitEvent(stream, found->second, 0), "cudaStreamWaitEvent (capture)");
}

void LaunchedGraph::instantiate(cudaGraph_t graph, cudaStream_t stream) {
  const Bytes before = free_memory();
  const cudaError_t made = cudaGraphInstantiate(&exec_, graph, cudaGraphInstantiateFlagUseNodePriority);
  require(cudaGraphDestroy(graph), "cudaGraphDestroy");
  require(made, "cudaGraphInstantiate");
  require(cudaGraphUpload(exec_, stream), "cudaGraphUpload");
  require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const Bytes after = free_memory();
  bytes_ = before > after ? before - after : 0;
}

void LaunchedGraph::end(std::span<const cudaStream_t> streams) {
  if (state_ == State::capturing) {
    join(streams);
    cudaGraph_t graph = nullptr;
    state_ = State::outside;
    require(cudaStreamEndCapture(launching_, &graph), "cudaStreamEndCapture");
    captured_ = ops_;
    instantiate(graph, launching_);
  }
  state_ = State::outside;
  if (ops_ != captured_)
    throw DeviceFailure({ErrorKind::mismatch,
                         fmt::format("a launch of the CUDA graph has {} ops, its capture has {}", ops_, captured_),
                         {},
                         "take --cuda-graph none"});
}

void LaunchedGraph::launch() {
  require(cudaGraphLaunch(exec_, launching_), "cudaGraphLaunch");
}

void LaunchedGraph::release() {
  if (state_ == State::capturing) {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(launching_, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());  // of the capture that failed
  }
  state_ = State::outside;
  static_cast<void>(cudaDeviceSynchronize());
  if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
  exec_ = nullptr;
  for (const auto& [id, event] : events_) static_cast<void>(cudaEventDestroy(event));
  events_.clear();
  for (cudaEvent_t event : ends_) static_cast<void>(cudaEventDestroy(event));
  ends_.clear();
}

}  // namespace foreshard::gpu
