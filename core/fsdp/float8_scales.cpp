// What weights that are gathered in float8 are cast by (torchao/float8/fsdp_utils.py,
// precompute_float8_dynamic_scale_for_fsdp, August 2026): the largest element of each whole weight, found of the shards
// and all-reduced behind the optimizer's step. torchao gathers those of all weights at once; an optimizer that steps
// group by group on a stream of its own has each group's reduced behind the group's step.
#include "core/fsdp/fully_shard.hpp"

namespace foreshard {

/// Before the first forward: of the shards as they were initialised.
void FullyShard::make_float8_scales() {
  if (float8_.amaxes.valid()) return;
  find_float8_amaxes();
  if (float8_.amaxes.valid()) wait_gather_streams(backend_.record_event(StreamRole::compute));
}

/// Of all groups, on the compute stream, and one all-reduce.
void FullyShard::find_float8_amaxes() {
  std::vector<ParamGroupId> groups;
  std::uint32_t weights = 0;
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    each_group(UnitId{i}, [&](ParamGroupId id) {
      if (plan(id).float8_weights == 0) return;
      groups.push_back(id);
      weights += plan(id).float8_weights;
    });
  if (groups.empty()) return;
  if (!float8_.amaxes.valid()) {
    const auto allocate = [&](Buffer buffer, Bytes bytes) {
      return backend_.allocate({buffer, groups.front(), {}, bytes, StreamRole::compute}).buffer;
    };
    float8_.amaxes = allocate(Buffer::float8_amaxes, weights * itemsize(DType::float32));
    float8_.scales = allocate(Buffer::float8_scales, weights * Float8Scales::kStride);
  }
  for (const ParamGroupId id : groups) {
    backend_.begin_section(Section::float8_scales, id, Pass::forward);
    backend_.issue(ShardAmaxes{id, float8_.amaxes}, StreamRole::compute);
    if (id == groups.back()) reduce_float8_amaxes(id, 0, weights, StreamRole::compute);
    backend_.end_section();
  }
}

/// Of one group, behind its step.
void FullyShard::find_float8_amaxes(ParamGroupId id) {
  const ParamGroupPlan& p = plan(id);
  if (p.float8_weights == 0) return;
  backend_.begin_section(Section::float8_scales, id, Pass::forward);
  backend_.issue(ShardAmaxes{id, float8_.amaxes}, StreamRole::optimizer);
  reduce_float8_amaxes(id, p.first_float8, p.float8_weights, StreamRole::optimizer);
  backend_.end_section();
}

/// Where the optimizer has a stream of its own, on a communicator of its own too: all-gathers that are issued behind
/// would wait for the optimizer on that of the shard group.
void FullyShard::reduce_float8_amaxes(ParamGroupId id, std::uint32_t first, std::uint32_t count, StreamRole stream) {
  const bool apart = settings_.optimizer_overlap != OptimizerOverlap::none;
  CollectiveWork work{CollectiveKind::all_reduce, Transport::nccl, count * itemsize(DType::float32), {}};
  work.reduction = Reduction::maximum;
  const CommunicatorRole over = apart ? CommunicatorRole::float8_scales : CommunicatorRole::shard;
  backend_.issue(ReduceAmaxes{id, over, float8_.amaxes, first, work}, stream);
}

}  // namespace foreshard
