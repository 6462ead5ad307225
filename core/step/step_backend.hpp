// FSDP2's back end in a step that runs: memory from the caching allocator, events and ops on the Device.
#pragma once

#include "core/fsdp/fsdp_backend.hpp"
#include "core/step/op_emitter.hpp"
#include "core/step/step_lowering.hpp"
#include "core/step/step_memory.hpp"

namespace foreshard {

class StepBackend final : public FsdpBackend {
 public:
  /// All references must outlive this.
  StepBackend(StepMemory& memory, const StepStreams& streams, OpEmitter& emitter, StepLowering& lowering,
              Device& device)
      : memory_(memory), streams_(streams), emitter_(emitter), lowering_(lowering), device_(device) {}

  Allocation allocate(const BufferRequest& request) override { return memory_.allocate(request); }
  void free(BufferRef buffer) override { memory_.free(buffer); }
  void record_stream(BufferRef buffer, StreamRole stream) override { memory_.record_stream(buffer, streams_[stream]); }
  std::optional<BufferRef> gradient(ParameterId parameter) override { return memory_.gradient(parameter); }
  EventId record_event(StreamRole stream) override { return emitter_.record_event(streams_[stream]); }
  void wait_event(StreamRole stream, EventId event) override { emitter_.wait_event(streams_[stream], event); }
  void synchronize_event(EventId event) override { device_.synchronize_event(event); }
  void begin_section(Section section, ParamGroupId group, Pass pass) override {
    lowering_.begin_section(section, group, pass);
  }
  void issue(const FsdpOp& op, StreamRole stream) override { lowering_.issue(op, stream); }
  void end_section() override { lowering_.end_section(); }

 private:
  StepMemory& memory_;
  const StepStreams& streams_;
  OpEmitter& emitter_;
  StepLowering& lowering_;
  Device& device_;
};

}  // namespace foreshard
