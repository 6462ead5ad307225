// A small machine with round numbers, so that tests can do the arithmetic in their comments.
#pragma once

#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/sim_device.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {

/// 132 SMs, of which a ring holds 44 and a symmetric kernel 22: GEMMs become 1.5 and 1.2 times slower. GEMMs delay
/// collectives 1.25 times. Every collective of 1 ns a byte among 4 ranks fills the link. Nothing is resident; a
/// memory-bound kernel and one of another stream become 2 and 1.6 times slower.
inline ContentionSpec round_contention() {
  ContentionSpec spec;
  spec.memory_bandwidth = 1e12;
  for (CollectivePath* path : {&spec.ring, &spec.symmetric, &spec.copy_engine}) path->link_bandwidth = 0.75e9;
  spec.ring.sms = 44;
  spec.ring.gather_latency = spec.ring.reduce_latency = 0.25;
  spec.symmetric.sms = 22;
  spec.side_kernel = 1.6;
  spec.with_side_kernel = 2;
  spec.full_rate_sms = 0.8;
  spec.busy_link = 0.75;
  spec.usual_link = spec.most_traffic = 0.9;
  spec.cluster = 2;
  spec.one_wave = 1.5;
  spec.least_loss = 0.02;
  KernelUse& gemm = spec.classes[static_cast<std::size_t>(KernelClass::gemm)];
  gemm.sms = 1;
  gemm.pressure = 1;
  return spec;
}

/// Latencies in whole microseconds and round_contention().
inline MachineProfile round_machine() {
  MachineProfile machine = *builtin_profile("h200");
  machine.latencies = {.launch = {4000},
                       .kernel_gap = {1000},
                       .kernel_gap_all_gather = {3000},
                       .copy_gap = {5000},
                       .event_wait = {2000},
                       .communicator_gap = {6000},
                       .synchronize = {0},
                       .graph_gap = {500}};
  machine.contention = round_contention();
  return machine;
}

/// Every collective takes 1 ns a byte; low-contention ones carry a caveat and take the host 700 ns.
class LinearCollectives final : public CollectiveCost {
 public:
  [[nodiscard]] CollectivePrice price(const CollectiveRequest& request) const override {
    CollectivePrice price;
    price.time = Nanoseconds{static_cast<std::int64_t>(request.bytes)};
    price.uses = request.transport == Transport::copy_engine ? CollectiveResource::copy_engine
                 : request.transport == Transport::symmetric ? CollectiveResource::symmetric
                                                             : CollectiveResource::ring;
    if (request.transport == Transport::low_contention) {
      price.caveat = "not measured";
      price.host = {700};
    }
    price.path = "a straight line";
    return price;
  }
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
