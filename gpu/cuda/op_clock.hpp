// When each op of a CudaDevice was issued, began and ended.
//
// Who: CudaDevice. One thread. Three ways, from the cheapest:
// - issue: the host's call alone; begin and end equal it. Marked ops get a CUDA event behind them, so that the length
// of
//   a step can be read without recording anything else.
// - events: a pair of CUDA events around every op. They stretch small kernels by 1 to 3 µs and include what an op waits
//   for within itself; used where CUPTI is not to be had.
// - activities: CUPTI's timestamps (activity.hpp). An op is the union of the kernels, copies and memsets it put.
// Ops of a CUDA graph are issued one by one and put as one: CUPTI tells them apart by the node they are, events time
// the launch as a whole, and each of its ops is given that length. An op without any activity (a collective of one rank
// in place, a launch that another op does) is given no length at the moment when what it is ordered behind had ended.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "gpu/cuda/activity.hpp"

namespace foreshard::gpu {

enum class Timing : std::uint8_t { issue = 0, events = 1, activities = 2 };

class OpClock {
 public:
  /// Starts CUPTI for Timing::activities, and falls back to events where that fails; timing() and caveat() say so.
  explicit OpClock(Timing timing);
  ~OpClock();
  OpClock(const OpClock&) = delete;
  OpClock& operator=(const OpClock&) = delete;

  [[nodiscard]] Timing timing() const { return timing_; }
  /// Why timings are not what was asked for, or that records were lost; empty: nothing to say.
  [[nodiscard]] std::string caveat() const;
  [[nodiscard]] Nanoseconds now() const;

  /// Around the calls of one op. `line`: ops of one line (a stream, or a communicator) run in issue order.
  OpId begin(StreamId stream, cudaStream_t handle);
  void end(OpId op, cudaStream_t handle, std::optional<CommunicatorId> communicator = {});

  /// A launch of a CUDA graph: the ops of node() until launch(), whose `put` puts the graph on the stream. In the
  /// launch that captures it, what is put after a call of node() is that node's.
  void begin_launch();
  OpId node(StreamId stream, std::optional<CommunicatorId> communicator);
  template <class Put>
  void launch(cudaStream_t handle, const Put& put) {
    before_launch(handle);
    put();
    after_launch(handle);
  }

  /// An event behind each of these ops, behind the whole launch where one is a node; given before they are issued.
  void mark(std::span<const OpId> ops);
  /// When the marked ops ended, by op. Requires a synchronised device.
  [[nodiscard]] std::map<OpId, Nanoseconds> marked();

  /// Corrects what CUPTI said of ops that came since the last time; returns how many of a resident kernel's it could
  /// not correct, which keep the times of their launches.
  using Refine = std::function<std::uint64_t(std::span<OpTiming>)>;
  /// Brings timings() up to date. Requires a synchronised device.
  void settle(const Refine& refine = {});
  [[nodiscard]] std::span<const OpTiming> timings() const { return timings_; }

 private:
  struct Placed {
    StreamId stream;
    std::optional<CommunicatorId> communicator;
  };
  struct EventPair {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  struct Launch {
    std::size_t first = 0;  ///< op
    std::size_t last = 0;   ///< the one behind
    EventPair events;       ///< Timing::events
  };
  OpId add(StreamId stream, std::optional<CommunicatorId> communicator);
  void before_launch(cudaStream_t handle);
  void after_launch(cudaStream_t handle);
  void mark_end(OpId op, cudaStream_t handle);
  void settle_activities(const Refine& refine);
  void settle_events();
  /// Ops from `from` on that did nothing, and the order of issue, start and end of all others.
  void settle_order(std::size_t from, const std::vector<bool>& seen);
  [[nodiscard]] Nanoseconds time_of(cudaEvent_t event) const;

  Timing timing_;
  std::string caveat_;
  std::int64_t origin_ = 0;     // steady_clock's nanoseconds that are 0 here
  cudaEvent_t zero_ = nullptr;  // an event whose host time is known …
  Nanoseconds zero_time_;       // … as this
  std::unique_ptr<ActivityRecording> activities_;
  std::vector<OpTiming> timings_;
  std::vector<Placed> placed_;
  std::vector<EventPair> pairs_;  // by op, Timing::events; none of a node
  std::vector<Launch> launches_;
  std::map<OpId, cudaEvent_t> marks_;
  std::size_t settled_ = 0;
  std::uint64_t unrefined_ = 0;
  std::map<std::uint32_t, Nanoseconds> stream_end_;  // of settled ops
  std::map<std::uint32_t, Nanoseconds> communicator_end_;
};

}  // namespace foreshard::gpu
