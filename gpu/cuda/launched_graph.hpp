// The CUDA graph of a CudaDevice: what its streams are given during the first launch is captured, put together and
// launched; every launch behind it is one cudaGraphLaunch.
//
// Who: CudaDevice. One thread. The capture is relaxed (cudaStreamCaptureModeRelaxed): no call of this or of another
// thread is forbidden meanwhile, so that a library may allocate. It begins on the device's first stream; the others
// join it at its begin and are joined at its end, so that each node has the edges that its stream and events gave it
// and no stream is left over. Nodes keep the priority of the stream they were captured on.
//
// Failures leave as DeviceFailure; one of the capture names the op that could not be captured.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::gpu {

class LaunchedGraph {
 public:
  enum class State : std::uint8_t {
    outside = 0,
    capturing = 1,
    replaying = 2  ///< the calls of a launch repeat what was captured, and put nothing
  };

  LaunchedGraph() = default;
  ~LaunchedGraph() { release(); }
  LaunchedGraph(const LaunchedGraph&) = delete;
  LaunchedGraph& operator=(const LaunchedGraph&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool inside() const { return state_ != State::outside; }

  /// A launch begins. `streams`: all of the device; the first one launches.
  void begin(std::span<const cudaStream_t> streams);
  /// An op of the launch.
  void count_op() { ++ops_; }
  /// What came of putting the op that was counted last on `stream`, while capturing. `name`: for people.
  void require_captured(const Result<void>& put, cudaStream_t stream, const std::string& name) const;
  /// Events of the capture; nothing while replaying. An event of before the launch is over by then.
  void record(EventId event, cudaStream_t stream);
  void wait(cudaStream_t stream, EventId event) const;
  /// All ops of the launch were counted. Throws where they are not as many as were captured.
  void end(std::span<const cudaStream_t> streams);
  /// What the first stream gets from now on comes behind what the others have: before launch().
  void join(std::span<const cudaStream_t> streams);
  /// cudaGraphLaunch, on the first stream.
  void launch();
  /// What the other streams get from now on comes behind what the first has: behind launch(), and behind what times it.
  void fork(std::span<const cudaStream_t> streams);

  /// Ends a capture that is under way, waits for the device and gives everything back.
  void release();
  /// Device memory that the driver took for the graph.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  [[nodiscard]] cudaEvent_t event_of(std::size_t stream);
  void instantiate(cudaGraph_t graph, cudaStream_t stream);

  State state_ = State::outside;
  cudaStream_t launching_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::map<EventId, cudaEvent_t> events_;  // of the capture
  std::vector<cudaEvent_t> ends_;          // by stream, for fork() and join()
  std::uint64_t ops_ = 0;                  // of this launch
  std::uint64_t captured_ = 0;
  Bytes bytes_ = 0;
};

}  // namespace foreshard::gpu
