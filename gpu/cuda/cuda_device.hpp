// CudaDevice: core/device on one GPU of a run, with NCCL and our own collectives between its ranks.
//
// Who: `foreshard run` and `probe`, through core/step. Streams are created ones without implicit synchronisation
// (cudaStreamNonBlocking), stream 0 too: the legacy default stream is never used. Kernels and their stand-ins
// come from gpu/kernels, collectives from gpu/collectives. host_work() does nothing, because a real host
// takes the time it takes, unless the run asked for the pace of the host that the workload describes.
//
// A CUDA graph is captured at its first launch (launched_graph.hpp), which issues its nodes; the launches behind it
// issue them again, and put nothing but the graph.
//
// The seam returns no errors: a failure of CUDA or of a peer leaves core as a DeviceFailure (failure.hpp).
// One thread. Ranks make the same calls in the same order wherever collectives and communicators are concerned.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "gpu/collectives/reduce_kernel.hpp"
#include "gpu/cuda/event_pool.hpp"
#include "gpu/cuda/launched_graph.hpp"
#include "gpu/cuda/op_clock.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/kernels/executor.hpp"

namespace foreshard::gpu {

/// A group's collectives on this rank.
struct GroupCollectives {
  /// Puts one on a stream; its addresses are filled in.
  std::function<Result<void>(const CollectiveWork& work, cudaStream_t stream)> issue = {};
  /// Reduce-scatters so far that a resident kernel does, and when it did one (reduce_kernel.hpp). Empty: there is none.
  std::function<std::uint32_t()> resident_items = {};
  std::function<ItemTime(std::uint32_t number)> item_time = {};
};

struct CudaDeviceOptions {
  Timing timing = Timing::issue;
  /// host_work(length) returns no sooner than `length` after the one before returned: a workload with the host costs
  /// of eager PyTorch is then issued as PyTorch issues it. Calls between the two count; one that blocks is not made up
  /// for.
  bool pace_host = false;
  /// Heard before each op is put on its stream: what a rank that hangs is said to have done last. Empty: nobody
  /// listens.
  std::function<void(LabelId label)> on_op = {};
  /// What an op is called in the error of a capture. Empty: it has its number alone.
  std::function<std::string(LabelId label)> name_of = {};
  /// Asked after each wait of the host: an error ends the run (a peer died, and its collectives were aborted).
  std::function<Result<void>()> healthy = {};
  /// Makes a group of two ranks or more; a group of one copies. Empty: such groups are an error.
  std::function<Result<GroupCollectives>(const CommunicatorOptions& options)> make_group = {};
};

class CudaDevice final : public Device {
 public:
  /// On the current device. `executor` and `memory` (for stand-ins of operands) outlive it.
  [[nodiscard]] static Result<std::unique_ptr<CudaDevice>> create(Executor& executor, DeviceMemory& memory,
                                                                  CudaDeviceOptions options);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  EventId record_event(StreamId stream) override;
  [[nodiscard]] bool event_complete(EventId event) override;
  void synchronize_event(EventId event) override;
  StreamId create_stream(const StreamOptions& options) override;
  CommunicatorId create_communicator(const CommunicatorOptions& options) override;
  using Device::launch;
  OpId launch(StreamId stream, const KernelLaunch& kernel) override;
  OpId copy(StreamId stream, const CopyWork& work) override;
  OpId collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) override;
  void stream_wait_event(StreamId stream, EventId event) override;
  void synchronize() override;
  void host_work(Nanoseconds length) override;
  [[nodiscard]] Nanoseconds host_now() override { return clock_.now(); }
  [[nodiscard]] bool can_launch_graphs() const override { return true; }
  void begin_graph_launch() override;
  void end_graph_launch() override;
  /// With Timing::issue, start and end are the issue's.
  [[nodiscard]] std::span<const OpTiming> timings() const override { return clock_.timings(); }

  /// CUDA's handle of a stream of this device.
  [[nodiscard]] cudaStream_t handle(StreamId stream) const { return streams_[stream.value]; }
  [[nodiscard]] OpClock& clock() { return clock_; }
  /// Memory that stands in for operands, outside the caching allocator.
  [[nodiscard]] Bytes staging_bytes() const { return staging_.bytes(); }
  /// What the driver took for the CUDA graph.
  [[nodiscard]] Bytes graph_bytes() const { return graph_.bytes(); }

 private:
  struct Group {
    GroupCollectives run;  ///< empty: a group of one rank
    std::uint32_t ranks = 1;
    StreamId last_stream;  ///< of its last collective …
    EventId last;          ///< … and an event behind it
  };
  /// An op whose items a resident kernel does: [first, end).
  struct ResidentOp {
    OpId op;
    CommunicatorId communicator;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };

  CudaDevice(Executor& executor, DeviceMemory& memory, CudaDeviceOptions options);
  /// Puts one op: `put` gets the stream and returns a Result.
  template <class Put>
  OpId add(StreamId stream, LabelId label, const Put& put, std::optional<CommunicatorId> communicator = {});
  template <class Put>
  OpId add_node(StreamId stream, LabelId label, const Put& put, std::optional<CommunicatorId> communicator);
  /// Gives ops of the resident kernel the times of their items; of CUPTI's they have those of launches. Returns how
  /// many keep these: the kernel notes the last kItemTimes items alone.
  std::uint64_t place_resident(std::span<OpTiming> timings);
  /// What comes now is ordered behind every collective so far by other means.
  void forget_order();
  void check_health();

  Executor& executor_;
  CudaDeviceOptions options_;
  OpClock clock_;
  Nanoseconds paced_;  ///< when the last host_work returned
  EventPool events_;
  Staging staging_;
  std::vector<cudaStream_t> streams_;
  std::vector<Group> groups_;
  std::vector<ResidentOp> resident_;  ///< since the last synchronize(), Timing::activities
  LaunchedGraph graph_;
};

}  // namespace foreshard::gpu
