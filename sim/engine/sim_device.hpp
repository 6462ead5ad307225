// SimDevice: the simulator as a back end (core/device/device.hpp).
//
// Who: core/step drives it through Device; sim/predict sets its options. Wraps the engine with a host
// clock, the launch queue, prices for what comes without one, and names.
//
// The host runs ahead of the device. Device time is simulated only as far as an answer needs: to the host's
// present for event_complete, further where the host blocks (full launch queue, synchronisation), to the end
// at synchronize(). Asking never changes a timing.
//
// Thread safety: one thread. Determinism: the same calls give the same timings.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/labels.hpp"
#include "core/device/device.hpp"
#include "core/device/lowering.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/device_log.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/kernel_prices.hpp"

namespace foreshard::sim {

/// Every field changes the result, but `log`.
struct SimOptions {
  double host_scale = 1;    ///< multiplies every host_work(), each rounded once
  bool host_free = false;   ///< host work and synchronisations cost the host nothing: the GPU's own step time
  bool waits_free = false;  ///< the host does not wait for events that its program waits for
  /// Unfinished ops of one stream at which a launch blocks; none: the profile's; 0: never.
  std::optional<std::uint32_t> launch_queue = {};
  /// Texts of the ops' labels, for prices by name (price_kernel.hpp); null: none. Outlives the device.
  const Labels* labels = nullptr;
  Lowering lowering = Lowering::pytorch;  ///< whose collectives there are
  /// Other ranks begin the first collective this much later than this one.
  Nanoseconds first_collective_wait = {};
  double kernel_work = 1;  ///< multiplies the work of every op but collectives
  /// When this rank's collectives had all their ranks, in a job in which they do not come together; null: at once.
  const MeetingScript* script = nullptr;
  bool paced = false;  ///< as the script's collectives have it: EngineOptions::paced
  /// The rank whose place on the fabric and whose links its groups have; none: any rank's, the slowest of them.
  std::optional<std::uint32_t> rank = {};
  std::uint32_t node_ranks = 0;  ///< ranks of a node; 0: as many as the machine has GPUs
  DeviceLog* log = nullptr;      ///< where every call is written down; null: nowhere. Changes nothing
};

/// What ran for one kind of collective on one communicator: of those issued, the largest.
struct CollectiveRan {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::string communicator;
  Transport asked = Transport::nccl;
  Bytes bytes = 0;
  std::string path;           ///< CollectivePrice::path
  std::string why_not_asked;  ///< CollectivePrice::why_not_asked
  FirstUse first_use;         ///< what it costs once, which no steady step pays
};

/// What was issued in a stretch of the host's calls, each op as long as it is alone.
struct IssuedWork {
  Nanoseconds compute;  ///< of the compute stream
  Nanoseconds links;    ///< of the collectives of the communicator that has most
  Nanoseconds host;     ///< the host's own, waits for the device left out
};

/// Which kernels of a stream go first where SMs are short.
enum class StreamPlace : std::uint8_t {
  compute = 0,  ///< the compute stream
  first = 1,    ///< of higher priority
  in_turn = 2,  ///< another of its priority, or a lower one
};
inline constexpr std::size_t kStreamPlaces = 3;

/// Collectives whose prices rest on no measurement, for one reason.
struct DerivedPrices {
  std::string caveat;  ///< CollectivePrice::caveat
  Nanoseconds alone;   ///< what all of them take by themselves
  bool cannot_run = false;
  double within = 0;  ///< CollectivePrice::within
};

class SimDevice final : public Device {
 public:
  /// Both references must outlive the device.
  SimDevice(const MachineProfile& machine, const CollectiveCost& collectives, const SimOptions& options = {});

  /// Does what `log` says on a new device, with the host of its options: what the calls of host_now() gave. It may end
  /// where one of these came behind the end of the op `until`, whose times and those of ops before it are known then.
  std::vector<Nanoseconds> replay(const DeviceLog& log, std::optional<OpId> until = {});

  EventId record_event(StreamId stream) override;
  [[nodiscard]] bool event_complete(EventId event) override;
  void synchronize_event(EventId event) override;

  StreamId create_stream(const StreamOptions& options) override;
  CommunicatorId create_communicator(const CommunicatorOptions& options) override;
  using Device::launch;
  /// A kernel that says no elements moves its operands' bytes; KernelOp::fused takes no time.
  OpId launch(StreamId stream, const KernelLaunch& kernel) override;
  OpId copy(StreamId stream, const CopyWork& work) override;
  OpId collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) override;
  void stream_wait_event(StreamId stream, EventId event) override;
  void synchronize() override;
  void host_work(Nanoseconds length) override;
  /// A call of the driver's that takes `length` of the host, whatever its speed: no work that another order of ops has.
  void driver_call(Nanoseconds length);
  /// A node costs the host Latencies::graph_node, and nothing else does meanwhile.
  [[nodiscard]] bool can_launch_graphs() const override { return true; }
  void begin_graph_launch() override { in_graph_ = true; }
  void end_graph_launch() override { in_graph_ = false; }
  [[nodiscard]] Nanoseconds host_now() override {
    note(DeviceLog::Kind::host_now);
    return host_now_;
  }
  [[nodiscard]] std::span<const OpTiming> timings() const override { return engine_.timings(); }

  /// From now on collectives of this communicator start and wait for ranks that never come.
  void lose_peers(CommunicatorId communicator) { communicators_[communicator.value].peers_lost = true; }
  /// Set once the host has blocked on something that can never happen: that call, and every blocking one behind it,
  /// throws HostStopped, and ops that did not come to it keep OpTiming::kNever as start and end.
  [[nodiscard]] const std::optional<Deadlock>& deadlock() const { return deadlock_; }
  /// Prices that were not measured, in order of first use.
  [[nodiscard]] const std::vector<DerivedPrices>& derived() const { return derived_; }
  /// By kind, transport asked for and communicator, in order of first use.
  [[nodiscard]] const std::vector<CollectiveRan>& collectives_ran() const { return collectives_ran_; }
  /// Host work so far, waits for the device left out.
  [[nodiscard]] Nanoseconds host_worked() const { return host_worked_; }
  /// Of the ops behind `after`, up to `until`; of the host between their issues.
  [[nodiscard]] IssuedWork issued_between(OpId after, OpId until) const;
  /// How long the host was blocked by full launch queues so far.
  [[nodiscard]] Nanoseconds host_blocked() const { return host_blocked_; }
  [[nodiscard]] const std::string& stream_name(StreamId stream) const { return stream_names_[stream.value]; }

 private:
  struct Communicator {
    CommunicatorOptions options;
    bool peers_lost = false;
  };
  struct PricedCollective {
    CollectivePrice price;
    CollectiveDemand demand;
  };

  void wait_for_room(StreamId stream);
  void note(DeviceLog::Kind kind, std::uint32_t a = 0, std::int64_t b = 0) {
    if (options_.log != nullptr) options_.log->call(kind, a, b);
  }
  /// Submits at the host's time, which is that after waiting for room. `same_as` as DeviceLog's.
  /// `running_op`: what equal ops share with OpTable::submit(), filled in by the first of them.
  OpId submit(EngineOp&& op, std::uint32_t same_as = DeviceLog::kOnce, std::uint32_t* running_op = nullptr);
  /// Of a kernel of this price on that stream.
  std::uint32_t& running_op_of(std::uint32_t price, StreamId stream);
  OpId launch_cost(StreamId stream, const KernelWork& work);
  const PricedCollective& priced(const CollectiveRequest& request);
  void remember(const CollectiveRequest& request, const CollectivePrice& cost, const std::string& communicator);
  /// Simulates until `done()`; HostStopped (and a deadlock) where it never is.
  template <class Done>
  void run_until(Done done);
  void wake_at(Nanoseconds time);
  void report_deadlock();

  const MachineProfile& machine_;
  const CollectiveCost& collectives_;
  SimOptions options_;
  std::uint32_t launch_queue_;
  OpTable table_;
  Engine engine_;
  KernelPrices prices_;
  std::vector<std::uint32_t> running_ops_;  // by price and StreamPlace
  std::map<CollectiveRequest, PricedCollective> collective_prices_;
  Nanoseconds first_collective_wait_;  ///< of the options; none once it was waited for
  Nanoseconds host_now_;
  Nanoseconds host_worked_;
  std::vector<Nanoseconds> host_worked_at_;  // by op, when it was issued
  Nanoseconds host_blocked_;
  bool in_graph_ = false;
  std::vector<std::string> stream_names_;
  std::vector<StreamPlace> stream_places_;
  std::vector<Communicator> communicators_;
  std::vector<DerivedPrices> derived_;
  std::vector<CollectiveRan> collectives_ran_;
  std::optional<Deadlock> deadlock_;
};

}  // namespace foreshard::sim
