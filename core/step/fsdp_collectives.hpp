// FSDP2's collectives on a Device: over which communicator, on which memory. The same whatever the lowering.
#pragma once

#include <vector>

#include "core/step/op_emitter.hpp"
#include "core/step/step_lowering.hpp"

namespace foreshard {

class FsdpCollectives {
 public:
  /// What `context` names must outlive this.
  explicit FsdpCollectives(const LoweringContext& context)
      : plans_(context.plans),
        mesh_(context.mesh),
        streams_(context.streams),
        memory_(context.memory),
        emitter_(context.emitter) {}

  /// Requires is_collective(op).
  void issue(const FsdpOp& op, StreamId on);

 private:
  void issue(const AllGather& op, StreamId on);
  void issue(const ReduceScatter& op, StreamId on);
  void issue(const AllReduce& op, StreamId on);
  void issue(const ReduceAmaxes& op, StreamId on);

  const std::vector<UnitPlan>& plans_;
  const RankMesh& mesh_;
  StepStreams& streams_;
  const StepMemory& memory_;
  OpEmitter& emitter_;
  std::vector<ShardedTensor> tensors_;  // of the call that is issued
};

}  // namespace foreshard
