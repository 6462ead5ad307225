// A small machine with round numbers, so that tests can do the arithmetic in their comments.
#pragma once

#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/device.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {

/// Latencies of the h200 profile; a ring slows GEMMs 1.5 times and is slowed 1.25 times by them.
inline MachineProfile round_machine() {
  MachineProfile machine = *builtin_profile("h200");
  machine.latencies = {.launch = {4000},
                       .kernel_gap = {1000},
                       .kernel_gap_all_gather = {3000},
                       .copy_gap = {5000},
                       .event_wait = {2000},
                       .communicator_gap = {6000},
                       .synchronize = {0}};
  machine.contention = {};
  machine.contention[0][0] = {1.5, 1.25};  // gemm × ring
  machine.contention[4][2] = {2.0, 1.6};   // memory-bound × side kernel
  machine.rings = {.sms = 24, .symmetric_sms = 8, .share_of_two = 0.9, .two_slowdown = 1.25};
  return machine;
}

/// Every collective takes 1 ns a byte; low-contention ones carry a caveat.
class LinearCollectives final : public CollectiveCost {
 public:
  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override {
    CollectivePrice price;
    price.time = Nanoseconds{static_cast<std::int64_t>(request.bytes)};
    price.uses = request.transport == Transport::copy_engine ? CollectiveResource::copy_engine
                 : request.transport == Transport::symmetric ? CollectiveResource::symmetric
                                                             : CollectiveResource::ring;
    if (request.transport == Transport::low_contention) price.caveat = "not measured";
    return price;
  }
  [[nodiscard]] std::string_view description() const override { return "1 ns a byte"; }
};

/// A device with the compute stream 0, "all-gather" 1, "reduce-scatter" 2 and one communicator of 4 ranks.
struct Bench {
  explicit Bench(const MachineProfile& profile = round_machine(), const SimOptions& options = {})
      : machine(profile), device(machine, cost, options) {
    gather = device.create_stream({"all-gather", -1});
    scatter = device.create_stream({"reduce-scatter", -1});
    world = device.create_communicator({"world", 4, 4});
  }
  OpId gemm(std::int64_t ns, StreamId stream = kComputeStream) {
    return device.launch(stream, {.kernel_class = KernelClass::gemm, .work = {ns}, .label = {}});
  }
  OpId elementwise(std::int64_t ns, StreamId stream = kComputeStream) {
    return device.launch(stream, {.kernel_class = KernelClass::memory_bound, .work = {ns}, .label = {}});
  }
  OpId all_gather(Bytes bytes, Transport transport = Transport::nccl) {
    return device.collective(gather, world, {CollectiveKind::all_gather, transport, bytes, {}});
  }
  OpId reduce_scatter(Bytes bytes) {
    return device.collective(scatter, world, {CollectiveKind::reduce_scatter, Transport::nccl, bytes, {}});
  }
  std::int64_t start(OpId op) { return device.timings()[op.value].start.count; }
  std::int64_t end(OpId op) { return device.timings()[op.value].end.count; }

  MachineProfile machine;
  LinearCollectives cost;
  SimDevice device;
  StreamId gather;
  StreamId scatter;
  CommunicatorId world;
};

}  // namespace foreshard::sim
