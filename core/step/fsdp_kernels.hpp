// What FSDP2's ops compute, as one kernel each: casts and copies of one group, on the memory that the op names.
//
// Who: ForeshardLowering. Content rules (PyTorch 2.11): shards are dim-0 chunks, padded
// (FSDPParam._init_sharded_param); an all-gather's block holds each rank's cast shards one behind the other
// (foreach_all_gather); a reduce-scatter's input holds, for each rank, its part of every gradient (chunk_cat); the
// reduced output is that rank's part of each, and becomes .grad.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "core/step/op_emitter.hpp"
#include "core/step/parameter_memory.hpp"
#include "core/step/step_lowering.hpp"

namespace foreshard {

class FsdpKernels {
 public:
  /// What `context` names, and `parameters`, must outlive this.
  FsdpKernels(const LoweringContext& context, const ParameterMemories& parameters)
      : table_(context.parameters),
        plans_(context.plans),
        mesh_(context.mesh),
        memory_(context.memory),
        parameters_(parameters) {}

  /// The kernels of `op`; none of a collective, and none where nothing is left to compute. Valid until the next call.
  [[nodiscard]] std::vector<BoundKernel> of(const FsdpOp& op);

 private:
  using Bound = std::vector<BoundKernel>;
  using Key = std::tuple<UnitId, std::uint32_t, KernelOp, std::vector<bool>>;

  Bound make(const CopyIn& op);
  Bound make(const AllGather&) { return {}; }
  Bound make(const CopyOut& op);
  Bound make(const CopyOutShards& op);
  Bound make(const KeepPart& op);
  Bound make(const AddGradients& op);
  Bound make(const CastGradient& op);
  Bound make(const ChunkCat& op);
  Bound make(const ReduceScatter&) { return {}; }
  Bound make(const CopyReduced& op);
  Bound make(const AllReduce&) { return {}; }
  Bound make(const CastBack& op);
  Bound make(const AddReduced& op);
  Bound make(const OffloadGradients&) { return {}; }
  Bound make(const StepOptimizer&) { return {}; }
  Bound make(const ShardAmaxes& op);
  Bound make(const ReduceAmaxes&) { return {}; }
  /// make(CopyIn) of a group that has float8 weights.
  Bound cast_in(const CopyIn& op);
  /// Where this rank's part of each parameter begins in the block.
  [[nodiscard]] std::vector<Bytes> parts_of(const CopyIn& op) const;

  [[nodiscard]] const ParamGroupPlan& plan(ParamGroupId id) const { return plans_[id.unit.value].groups[id.index]; }
  [[nodiscard]] const Parameter& parameter(const ParameterPlan& plan) const { return *table_[plan.id].parameter; }
  [[nodiscard]] std::uint64_t padded(const ParameterPlan& plan) const {
    return padded_shard_numel(parameter(plan), mesh_.shard());
  }
  [[nodiscard]] std::uint64_t local(const ParameterPlan& plan) const {
    return local_shard_numel(parameter(plan), mesh_.shard());
  }
  Bound copy(Address to, DType to_dtype, Address from, DType from_dtype, std::uint64_t numel);
  [[nodiscard]] const Kernel* keep(Kernel kernel);

  const ParameterTable& table_;
  const std::vector<UnitPlan>& plans_;
  const RankMesh& mesh_;
  const StepMemory& memory_;
  const ParameterMemories& parameters_;
  std::map<Key, Kernel> cached_;  // shapes of a group's op, which never change
  std::vector<Kernel> made_;      // of the last call
};

}  // namespace foreshard
