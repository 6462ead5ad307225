#include "core/models/fsdp_section_costs.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "core/fsdp/unit_plan.hpp"
#include "core/optimizer/optimizer_passes.hpp"
#include "core/shard/copy_metadata.hpp"
#include "core/workload/pytorch_costs.hpp"

namespace foreshard::model {
namespace {

class Writer {
 public:
  Writer(Workload& workload, const HostCosts& host, const std::vector<UnitPlan>& plans)
      : workload_(workload), settings_(workload.settings), host_(host), plans_(plans) {}

  std::vector<SectionCost> write();
  SectionCost optimizer();

 private:
  [[nodiscard]] Nanoseconds fixed(HostCall call, HostCall each, const ParamGroupPlan& plan) const {
    return host_[call] + Nanoseconds{host_[each].count * static_cast<std::int64_t>(plan.parameters.size())};
  }
  SectionItem item(SectionRole role, std::string_view label, Bytes bytes, Nanoseconds before = {},
                   KernelClass kernel_class = KernelClass::memory_bound) {
    return {role, before, {}, kernel_class, bytes, workload_.labels.intern(label)};
  }
  SectionCost all_gather(UnitId unit, const ParamGroupPlan& plan, Pass pass);
  SectionCost copy_out(UnitId unit, const ParamGroupPlan& plan, Pass pass);
  SectionCost copy_out_shards(UnitId unit, const ParamGroupPlan& plan, Pass pass);
  SectionCost reduce(UnitId unit, const ParamGroupPlan& plan);
  SectionCost float8_scales(UnitId unit, const ParamGroupPlan& plan);
  SectionCost zero_grad();

  Workload& workload_;
  const Settings& settings_;
  const HostCosts& host_;
  const std::vector<UnitPlan>& plans_;
};

/// foreach_all_gather: cast of the shards, copy into the all-gather's block, the collective.
SectionCost Writer::all_gather(UnitId unit, const ParamGroupPlan& plan, Pass pass) {
  SectionCost cost{Section::all_gather, unit, pass, {}, {}};
  const Nanoseconds host = fixed(HostCall::all_gather, HostCall::all_gather_parameter, plan);
  const bool casts = plan.casts;
  const Nanoseconds part = host.scaled(1.0 / (casts ? 3 : 2));
  std::vector<std::uint64_t> numels;
  Bytes wide = 0;
  Bytes narrow = 0;
  const Bytes stored = plan.cast_output_itemsize;
  for (const ParameterPlan& p : plan.parameters) {
    numels.push_back(p.shard / stored);
    wide += p.shard;
    narrow += p.cast_shard;
    if (settings_.offload) cost.items.push_back(item(SectionRole::offload_copy, "Memcpy HtoD", p.shard));
  }
  const std::uint64_t elements = std::max<std::uint64_t>(1, wide / stored);
  const auto add = [&](SectionRole role, Bytes bytes, std::string_view label) {
    bool first = true;
    for (const MultiTensorLaunch& launch : multi_tensor_launches(numels, 2)) {
      const auto handled = static_cast<double>(elements_of(launch));
      const auto share = static_cast<Bytes>(static_cast<double>(bytes) * handled / static_cast<double>(elements));
      cost.items.push_back(
          item(role, label, share, first ? part : host_[HostCall::optimizer_launch], KernelClass::gather_copy));
      first = false;
    }
  };
  if (casts) add(SectionRole::cast, wide + narrow, "aten::_foreach_copy_");
  add(SectionRole::copy_in, 2 * narrow, "fsdp::all_gather_copy_in");
  cost.items.push_back(item(SectionRole::collective, "all_gather", 0, part));
  return cost;
}

/// foreach_all_gather_copy_out: addresses to the device, then one split kernel.
SectionCost Writer::copy_out(UnitId unit, const ParamGroupPlan& plan, Pass pass) {
  const Nanoseconds host = fixed(HostCall::copy_out, HostCall::copy_out_parameter, plan);
  SectionCost cost{Section::copy_out, unit, pass, {}, {}};
  const Nanoseconds before = host.scaled(pytorch_costs::kMetadataOfCopyOut.value);
  cost.items.push_back(item(SectionRole::metadata_copy, "Memcpy HtoD", plan.split_metadata, before));
  Bytes bytes = plan.gather;
  for (const ParameterPlan& p : plan.parameters) bytes += p.unsharded;
  cost.items.push_back(item(SectionRole::split, "fsdp::split_with_sizes_copy", bytes, host - before));
  for (const ParameterPlan& p : plan.parameters)
    if (p.rechunks)
      cost.items.push_back(item(SectionRole::cat, "aten::cat", 2 * p.unsharded, host_[HostCall::elementwise]));
  return cost;
}

/// wait_for_unshard of a shard group of one rank: each parameter is cast, and copied.
SectionCost Writer::copy_out_shards(UnitId unit, const ParamGroupPlan& plan, Pass pass) {
  SectionCost cost{Section::copy_out, unit, pass, {}, {}};
  const Nanoseconds host = host_[HostCall::elementwise];
  for (const ParameterPlan& p : plan.parameters) {
    if (settings_.offload) cost.items.push_back(item(SectionRole::offload_copy, "Memcpy HtoD", p.shard, host));
    if (plan.casts) cost.items.push_back(item(SectionRole::cast, "aten::copy_", p.shard + p.cast_shard, host));
    cost.items.push_back(item(SectionRole::split, "Memcpy DtoD", 2 * p.unsharded, host));
  }
  return cost;
}

/// foreach_reduce: addresses, chunk_cat, the collectives, the cast back.
SectionCost Writer::reduce(UnitId unit, const ParamGroupPlan& plan) {
  const Nanoseconds host = fixed(HostCall::reduce, HostCall::reduce_parameter, plan);
  SectionCost cost{Section::reduce, unit, Pass::backward, {}, {}};
  std::vector<Bytes> chunks;
  Bytes gradients = 0;
  Bytes sent = 0;
  Bytes output = 0;
  const bool accumulated = settings_.accumulate > 1 && !settings_.accumulate_with_sync && plan.casts_gradients;
  for (const ParameterPlan& p : plan.parameters) {
    chunks.push_back(accumulated ? p.reduce_chunk : p.sent_chunk);
    const Bytes gradient = accumulated ? p.accumulated : p.gradient;
    gradients += gradient;
    sent += chunks.back() * plan.shard_ranks;
    output += p.reduce_chunk;
    if (p.rechunks)
      cost.items.push_back(item(SectionRole::cat, "aten::cat", 2 * gradient, host_[HostCall::elementwise]));
  }
  const bool casts = plan.casts_gradients && !accumulated && plan.sent == plan.reduce;
  const double slower = (casts ? pytorch_costs::kChunkCatCasting : pytorch_costs::kChunkCat).value;
  const auto moved = static_cast<Bytes>(static_cast<double>(gradients + sent) * slower);
  const Nanoseconds metadata = host.scaled(pytorch_costs::kMetadataOfReduce.value);
  const Nanoseconds chunk_cat = host.scaled(pytorch_costs::kChunkCatOfReduce.value);
  cost.items.push_back(item(SectionRole::metadata_copy, "Memcpy HtoD", chunk_cat_metadata_bytes(chunks), metadata));
  cost.items.push_back(item(SectionRole::chunk_cat, "fsdp::chunk_cat", moved, chunk_cat));
  const Nanoseconds rest = host - metadata - chunk_cat;
  if (plan.shard_ranks > 1) {
    cost.items.push_back(item(SectionRole::collective, "reduce_scatter", 0, rest));
  } else {
    if (plan.divides) cost.items.push_back(item(SectionRole::copy_reduced, "aten::div", 2 * sent, rest));
    cost.items.push_back(item(SectionRole::copy_reduced, "Memcpy DtoD", sent + output,
                              plan.divides ? host_[HostCall::elementwise] : rest));
  }
  if (settings_.replicate > 1)
    cost.items.push_back(item(SectionRole::all_reduce, "all_reduce", 0, host_[HostCall::elementwise]));
  if (plan.casts_back) {
    const Bytes back = output / itemsize(plan.reduce) * plan.cast_output_itemsize;
    cost.items.push_back(item(SectionRole::cast_back, "aten::copy_", output + back, host_[HostCall::elementwise]));
  }
  if (settings_.offload)
    for (const ParameterPlan& p : plan.parameters)
      cost.items.push_back(item(SectionRole::offload_copy, "Memcpy DtoH", p.shard, host_[HostCall::elementwise]));
  return cost;
}

/// Largest elements of the shards of float8 weights, and their all-reduce: a launch each, of foreshard's own program.
SectionCost Writer::float8_scales(UnitId unit, const ParamGroupPlan& plan) {
  SectionCost cost{Section::float8_scales, unit, Pass::forward, {}, {}};
  Bytes bytes = 0;
  for (const ParameterPlan& p : plan.parameters) bytes += is_float8(p.gathered) ? p.shard : 0;
  cost.items.push_back(item(SectionRole::amax, "foreshard::shard_amaxes", bytes, host_[HostCall::reduction]));
  cost.items.push_back(item(SectionRole::all_reduce, "all_reduce", 0, host_[HostCall::elementwise]));
  return cost;
}

/// Operands are read and written in the parameters' dtype, as gradients and states have it (zeros_like).
SectionCost Writer::optimizer() {
  SectionCost cost{Section::optimizer, kRootUnit, Pass::forward, {}, {}};
  std::vector<OptimizerShard> shards;
  std::vector<const Parameter*> by_id;
  std::vector<std::optional<DType>> casts;  // likewise
  for (const Unit& unit : workload_.units)
    for (const Parameter& p : unit.parameters) by_id.push_back(&p);
  for (const UnitPlan& unit : plans_)
    for (const ParamGroupPlan& group : unit.groups)
      for (const ParameterPlan& p : group.parameters)
        casts.push_back(group.kept_input > 0 ? std::optional(p.compute) : std::nullopt);
  std::size_t parameters = 0;
  std::uint64_t on_cpu = 0;
  const std::vector<std::uint32_t> param_groups = param_group_by_place(workload_);
  for (std::size_t place = 0; place < param_groups.size(); ++place) {
    const ParameterId id = workload_.parameters_order[place];
    const Parameter& p = *by_id[id.value];
    if (!p.requires_grad) continue;
    const std::uint64_t numel = local_shard_numel(p, shard_dimension(settings_));
    if (numel == 0) continue;
    ++parameters;
    if (settings_.offload)
      on_cpu += numel;
    else
      shards.push_back({numel, p.dtype, casts[id.value], param_groups[place]});
  }
  for (const OptimizerGroup& group : optimizer_groups(settings_.optimizer, shards))
    for (const OptimizerLaunch& launch : optimizer_launches(settings_.optimizer, group.numels, group.cast.has_value()))
      cost.items.push_back(
          item(SectionRole::other, launch.pass->label, bytes_of(launch, group), host_[HostCall::optimizer_launch]));
  Nanoseconds begin = host_[HostCall::optimizer_begin];
  begin.count += host_[HostCall::optimizer_parameter].count * static_cast<std::int64_t>(parameters);
  const CpuOptimizer& cpu = host_.cpu_optimizer;
  const Nanoseconds million = settings_.optimizer == Optimizer::sgd ? cpu.sgd : cpu.adam;
  if (cost.items.empty())
    cost.host_after = begin + million.scaled(static_cast<double>(on_cpu) / 1e6);
  else
    cost.items.front().host_before += begin;
  return cost;
}

/// Optimizer.zero_grad (torch/optim/optimizer.py, 2.11): `p.grad.zero_()` for each parameter, or torch._foreach_zero_
/// of all gradients of a dtype where the constructor was given foreach=True or fused=True. Adam's own choice of foreach
/// (foreach=None) is not asked.
SectionCost Writer::zero_grad() {
  SectionCost cost{Section::zero_grad, kRootUnit, Pass::forward, {}, {}};
  const bool foreach = settings_.optimizer == Optimizer::adam_fused;
  std::map<DType, std::vector<std::uint64_t>> by_dtype;
  for (const Unit& unit : workload_.units)
    for (const Parameter& p : unit.parameters) {
      const std::uint64_t numel = p.requires_grad ? local_shard_numel(p, shard_dimension(settings_)) : 0;
      if (numel == 0) continue;
      if (foreach)
        by_dtype[p.dtype].push_back(numel);
      else
        cost.items.push_back(
            item(SectionRole::other, "aten::zero_", numel * itemsize(p.dtype), host_[HostCall::elementwise]));
    }
  for (const auto& [dtype, numels] : by_dtype)
    for (const MultiTensorLaunch& launch : multi_tensor_launches(numels, 1))
      cost.items.push_back(item(SectionRole::other, "aten::_foreach_zero_", elements_of(launch) * itemsize(dtype),
                                host_[HostCall::optimizer_launch]));
  return cost;
}

std::vector<SectionCost> Writer::write() {
  std::vector<SectionCost> out;
  for (const UnitPlan& unit : plans_)
    for (std::uint32_t g = 0; g < unit.groups.size(); ++g) {
      const ParamGroupPlan& group = unit.groups[g];
      const std::size_t first = out.size();
      for (Pass pass : {Pass::forward, Pass::backward}) {
        out.push_back(all_gather(unit.id, group, pass));
        out.push_back(group.shard_ranks > 1 ? copy_out(unit.id, group, pass) : copy_out_shards(unit.id, group, pass));
      }
      out.push_back(reduce(unit.id, group));
      if (group.float8_weights > 0) out.push_back(float8_scales(unit.id, group));
      for (std::size_t i = first; i < out.size(); ++i) out[i].group = g;
    }
  out.push_back(optimizer());
  if (!settings_.set_to_none) out.push_back(zero_grad());
  return out;
}

}  // namespace

Result<std::vector<SectionCost>> section_costs(Workload& workload, const HostCosts& host) {
  const auto plans = plan_units(workload.settings, workload.units, workload.sm_count);
  FORESHARD_TRY(plans);
  return Writer(workload, host, *plans).write();
}

Result<SectionCost> optimizer_cost(Workload& workload, const HostCosts& host) {
  const auto plans = plan_units(workload.settings, workload.units, workload.sm_count);
  FORESHARD_TRY(plans);
  return Writer(workload, host, *plans).optimizer();
}

}  // namespace foreshard::model
