#include "core/step/fsdp_collectives.hpp"

namespace foreshard {

void FsdpCollectives::issue(const FsdpOp& op, StreamId on) {
  if (const auto* gather = std::get_if<AllGather>(&op)) issue(*gather, on);
  if (const auto* scatter = std::get_if<ReduceScatter>(&op)) issue(*scatter, on);
  if (const auto* reduce = std::get_if<AllReduce>(&op)) issue(*reduce, on);
  if (const auto* amaxes = std::get_if<ReduceAmaxes>(&op)) issue(*amaxes, on);
}

void FsdpCollectives::issue(const AllGather& op, StreamId on) {
  CollectiveWork work = op.work;
  work.output = memory_.address(op.block);
  tensors_.clear();
  if (op.contiguous) {
    const ParamGroupPlan& group = plans_[op.group.unit.value].groups[op.group.index];
    for (const ParameterPlan& p : group.parameters)
      tensors_.push_back({work.output + p.offset, p.cast_shard, p.cast_shard * group.shard_ranks});
    work.tensors = tensors_;
    work.input = op.input.valid() ? memory_.address(op.input) : work.output;
    emitter_.collective(on, work, streams_.communicator(op.over, op.group), op.group.unit);
    return;
  }
  if (op.input.valid())
    work.input = memory_.address(op.input);
  else
    work.input = work.output + mesh_.place(op.over, op.group) * (work.bytes / mesh_.ranks(op.over, op.group));
  emitter_.collective(on, work, streams_.communicator(op.over, op.group), op.group.unit);
}

void FsdpCollectives::issue(const ReduceScatter& op, StreamId on) {
  CollectiveWork work = op.work;
  work.input = memory_.address(op.input);
  work.output = memory_.address(op.output);
  tensors_.clear();
  const ParamGroupPlan& group = plans_[op.group.unit.value].groups[op.group.index];
  for (const ChunkCat::Input& input : op.gradients) {
    const ParameterPlan& p = group.parameters[input.parameter];
    tensors_.push_back({memory_.address(input.gradient), p.sent_chunk, p.gradient});
  }
  work.tensors = tensors_;
  if (!tensors_.empty()) work.input = tensors_.front().address;
  emitter_.collective(on, work, streams_.communicator(CommunicatorRole::reduce_scatter, op.group), op.group.unit);
}

void FsdpCollectives::issue(const AllReduce& op, StreamId on) {
  CollectiveWork work = op.work;
  work.input = work.output = memory_.address(op.gradients);
  emitter_.collective(on, work, streams_.communicator(CommunicatorRole::replicate, op.group), op.group.unit);
}

void FsdpCollectives::issue(const ReduceAmaxes& op, StreamId on) {
  CollectiveWork work = op.work;
  work.input = work.output = memory_.address(op.amaxes) + op.first * itemsize(DType::float32);
  emitter_.collective(on, work, streams_.communicator(op.over, op.group), op.group.unit);
}

}  // namespace foreshard
