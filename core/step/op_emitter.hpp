// Puts ops on a Device's streams and writes each into the Run.
//
// Who: the lowerings, for every kernel, copy and collective of a step; StepBackend for events.
#pragma once

#include <optional>
#include <vector>

#include "core/device/device.hpp"
#include "core/step/run_recorder.hpp"

namespace foreshard {

/// A kernel with its addresses, by operand. `kernel` is valid until the next call of the object that gave it.
struct BoundKernel {
  const Kernel* kernel = nullptr;
  std::vector<Address> addresses;
};

class OpEmitter {
 public:
  /// Both must outlive this.
  OpEmitter(Device& device, RunRecorder& recorder) : device_(device), recorder_(recorder) {}

  /// Host time before the next op.
  void host_work(Nanoseconds length) {
    if (!host_free_) device_.host_work(length);
  }
  /// Whether host work costs nothing from now on.
  void set_host_free(bool is_free) { host_free_ = is_free; }
  [[nodiscard]] Nanoseconds host_now() { return device_.host_now(); }

  // `unit`: whose op it is; invalid for the user's own.
  void kernel(StreamId on, const KernelWork& work, UnitId unit);
  void compute(StreamId on, const KernelWork& work, const BoundKernel& bound, UnitId unit);
  void copy(StreamId on, const CopyWork& work, UnitId unit);
  void collective(StreamId on, const CollectiveWork& work, CommunicatorId over, UnitId unit);

  [[nodiscard]] EventId record_event(StreamId on);
  void wait_event(StreamId on, EventId event);

  [[nodiscard]] std::uint64_t ops() const { return ops_; }
  /// Of those so far.
  [[nodiscard]] std::optional<OpId> last_compute_op() const { return last_compute_op_; }

 private:
  void count(OpId op, StreamId on) {
    ++ops_;
    if (on == kComputeStream) last_compute_op_ = op;
  }

  Device& device_;
  RunRecorder& recorder_;
  std::optional<OpId> last_compute_op_;
  std::uint64_t ops_ = 0;
  bool host_free_ = false;
};

}  // namespace foreshard
