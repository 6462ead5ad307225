// A device that puts everything on one stream, so that each op runs alone, and remembers what each kernel was.
//
// Who: the probe, to time the kernels of a program as a run issues them, in their order and with their operands, but
// with nothing beside them. Knows no CUDA; `under` does the work. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/kernel/kernel_cost.hpp"

namespace foreshard::gpu {

/// A kernel that was put on the device, priced as sim/engine/sim_device.hpp does it.
struct NotedKernel {
  OpId op;
  LabelId label;
  KernelMath math;
  Bytes bytes = 0;
};

class SerialDevice final : public Device {
 public:
  /// `under` must outlive this.
  explicit SerialDevice(Device& under) : under_(under) {}

  EventId record_event(StreamId) override { return under_.record_event(kComputeStream); }
  [[nodiscard]] bool event_complete(EventId event) override { return under_.event_complete(event); }
  void synchronize_event(EventId event) override { under_.synchronize_event(event); }
  /// A name of its own for the allocator, whose blocks belong to streams; the work goes to the compute stream.
  StreamId create_stream(const StreamOptions&) override { return StreamId{++streams_}; }
  CommunicatorId create_communicator(const CommunicatorOptions& options) override {
    return under_.create_communicator(options);
  }
  using Device::launch;
  OpId launch(StreamId, const KernelLaunch& kernel) override {
    const OpId op = under_.launch(kComputeStream, kernel);
    if (kernel.kernel == nullptr || kernel.kernel->op == KernelOp::fused) return op;
    const KernelWork& cost = kernel.cost;
    const bool by_operands = cost.math.kind == KernelMath::Kind::bytes && cost.math.m == 0;
    kernels_.push_back({op, cost.label, cost.math, by_operands ? operand_bytes(*kernel.kernel) : cost.bytes});
    return op;
  }
  OpId copy(StreamId, const CopyWork& work) override { return under_.copy(kComputeStream, work); }
  OpId collective(StreamId, CommunicatorId communicator, const CollectiveWork& work) override {
    // A stand-in that moves next to nothing: buffers keep what an earlier collective brought.
    if (drops_collectives_) return under_.launch(kComputeStream, {KernelClass::memory_bound, {}, kStandIn, 0, {}});
    return under_.collective(kComputeStream, communicator, work);
  }
  void stream_wait_event(StreamId, EventId) override {}  // one stream is in order
  void synchronize() override { under_.synchronize(); }
  void host_work(Nanoseconds length) override { under_.host_work(length); }
  [[nodiscard]] Nanoseconds host_now() override { return under_.host_now(); }
  [[nodiscard]] std::span<const OpTiming> timings() const override { return under_.timings(); }

  /// From now on collectives do nothing, as where kernels hide them all; on all ranks or on none.
  void drop_collectives() { drops_collectives_ = true; }

  [[nodiscard]] const std::vector<NotedKernel>& kernels() const { return kernels_; }

 private:
  static constexpr Bytes kStandIn = 512;

  Device& under_;
  bool drops_collectives_ = false;
  std::uint32_t streams_ = 0;
  std::vector<NotedKernel> kernels_;
};

}  // namespace foreshard::gpu
