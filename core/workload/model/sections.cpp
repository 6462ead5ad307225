#include "core/workload/model/sections.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/schedule/unit_plan.hpp"
#include "core/shard/copy_metadata.hpp"

namespace foreshard::model {
namespace {

// MultiTensorApply.cuh: kChunkSize elements a block, depth_to_max_blocks, depth_to_max_tensors.
constexpr std::uint64_t kChunkElements = 65536;
constexpr std::uint64_t kMaxBlocks = 320;
constexpr std::array<std::size_t, 5> kMaxTensors{110, 64, 48, 36, 30};

/// Shares of a section's fixed host time that pass before each kind of call (llama-1b's and mlp's reference runs).
constexpr double kMetadataOfCopyOut = 0.86;
constexpr double kMetadataOfReduce = 0.55;
constexpr double kChunkCatOfReduce = 0.06;

/// chunk_cat works element by element, below the memory's rate: counted as this many times its bytes. Measured on H200:
/// 2.0 TB/s where it casts bf16 to float32 (llama-1b, all units), 3.5 TB/s where it does not (mlp), of 4.1.
constexpr double kChunkCatCasting = 2.0;
constexpr double kChunkCat = 1.17;

class Writer {
 public:
  Writer(Workload& workload, const HostCosts& host, const std::vector<UnitPlan>& plans)
      : workload_(workload), settings_(workload.settings), host_(host), plans_(plans) {}

  std::vector<SectionCost> write();

 private:
  [[nodiscard]] Nanoseconds fixed(HostCall call, HostCall each, const UnitPlan& plan) const {
    return host_[call] + Nanoseconds{host_[each].count * static_cast<std::int64_t>(plan.parameters.size())};
  }
  SectionItem item(SectionRole role, std::string_view label, Bytes bytes, Nanoseconds before = {},
                   KernelClass kernel_class = KernelClass::memory_bound) {
    return {role, before, {}, kernel_class, bytes, workload_.labels.intern(label)};
  }
  SectionCost all_gather(const UnitPlan& plan, Pass pass);
  SectionCost copy_out(const UnitPlan& plan, Pass pass);
  SectionCost reduce(const UnitPlan& plan);
  SectionCost optimizer();
  void add_optimizer(SectionCost& cost, const std::vector<std::uint64_t>& numels, Bytes size);
  void add_adam(SectionCost& cost, const std::vector<std::uint64_t>& numels, Bytes size);
  void add_launches(SectionCost& cost, const std::vector<std::uint64_t>& numels, std::uint32_t depth, Bytes per_element,
                    std::string_view label);

  Workload& workload_;
  const Settings& settings_;
  const HostCosts& host_;
  const std::vector<UnitPlan>& plans_;
};

/// foreach_all_gather: cast of the shards, copy into the gather's block, the collective.
SectionCost Writer::all_gather(const UnitPlan& plan, Pass pass) {
  SectionCost cost{Section::all_gather, plan.id, pass, {}, {}};
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
    for (std::uint64_t handled : multi_tensor_launches(numels, 2)) {
      const auto share =
          static_cast<Bytes>(static_cast<double>(bytes) * static_cast<double>(handled) / static_cast<double>(elements));
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
SectionCost Writer::copy_out(const UnitPlan& plan, Pass pass) {
  const Nanoseconds host = fixed(HostCall::copy_out, HostCall::copy_out_parameter, plan);
  SectionCost cost{Section::copy_out, plan.id, pass, {}, {}};
  const Nanoseconds before = host.scaled(kMetadataOfCopyOut);
  cost.items.push_back(item(SectionRole::metadata_copy, "Memcpy HtoD", plan.split_metadata, before));
  Bytes bytes = plan.gather;
  for (const ParameterPlan& p : plan.parameters) bytes += p.unsharded;
  cost.items.push_back(item(SectionRole::split, "fsdp::split_with_sizes_copy", bytes, host - before));
  return cost;
}

/// foreach_reduce: addresses, chunk_cat, the collectives, the cast back.
SectionCost Writer::reduce(const UnitPlan& plan) {
  const Nanoseconds host = fixed(HostCall::reduce, HostCall::reduce_parameter, plan);
  SectionCost cost{Section::reduce, plan.id, Pass::backward, {}, {}};
  std::vector<Bytes> chunks;
  Bytes gradients = 0;
  Bytes output = 0;
  for (const ParameterPlan& p : plan.parameters) {
    chunks.push_back(p.reduce_chunk);
    gradients += settings_.accumulate > 1 && plan.casts_gradients ? p.accumulated : p.gradient;
    output += p.reduce_chunk;
  }
  const double slower = plan.casts_gradients ? kChunkCatCasting : kChunkCat;
  const auto moved = static_cast<Bytes>(static_cast<double>(gradients + output * plan.shard_ranks) * slower);
  const Nanoseconds metadata = host.scaled(kMetadataOfReduce);
  const Nanoseconds chunk_cat = host.scaled(kChunkCatOfReduce);
  cost.items.push_back(item(SectionRole::metadata_copy, "Memcpy HtoD", chunk_cat_metadata_bytes(chunks), metadata));
  cost.items.push_back(item(SectionRole::chunk_cat, "fsdp::chunk_cat", moved, chunk_cat));
  cost.items.push_back(item(SectionRole::collective, "reduce_scatter", 0, host - metadata - chunk_cat));
  if (settings_.replicate > 1)
    cost.items.push_back(item(SectionRole::all_reduce, "all_reduce", 0, host_[HostCall::elementwise]));
  if (plan.casts_back) {
    const Bytes back = output / plan.reduce_itemsize * plan.cast_output_itemsize;
    cost.items.push_back(item(SectionRole::cast_back, "aten::copy_", output + back, host_[HostCall::elementwise]));
  }
  if (settings_.offload)
    for (const ParameterPlan& p : plan.parameters)
      cost.items.push_back(item(SectionRole::offload_copy, "Memcpy DtoH", p.shard, host_[HostCall::elementwise]));
  return cost;
}

void Writer::add_launches(SectionCost& cost, const std::vector<std::uint64_t>& numels, std::uint32_t depth,
                          Bytes per_element, std::string_view label) {
  for (std::uint64_t elements : multi_tensor_launches(numels, depth))
    cost.items.push_back(item(SectionRole::other, label, elements * per_element, host_[HostCall::optimizer_launch]));
}

/// torch/optim/adam.py, operands read and written of `size` bytes an element (gradients and states have the parameter's
/// dtype: zeros_like): _multi_tensor_adam runs each op over the whole list, _single_tensor_adam all ops on one
/// parameter after the other.
void Writer::add_adam(SectionCost& cost, const std::vector<std::uint64_t>& numels, Bytes size) {
  struct Part {
    std::string_view label;
    std::uint32_t depth;
    Bytes operands;
  };
  constexpr std::array<Part, 7> kParts{{{"aten::_foreach_lerp_", 2, 3},
                                        {"aten::_foreach_mul_", 1, 2},
                                        {"aten::_foreach_addcmul_", 3, 3},
                                        {"aten::_foreach_sqrt", 2, 2},
                                        {"aten::_foreach_div_", 1, 2},
                                        {"aten::_foreach_add_", 1, 2},
                                        {"aten::_foreach_addcdiv_", 3, 4}}};
  if (settings_.optimizer == Optimizer::adam) {
    for (const Part& part : kParts) add_launches(cost, numels, part.depth, part.operands * size, part.label);
    return;
  }
  for (std::uint64_t numel : numels)
    for (const Part& part : kParts)
      cost.items.push_back(
          item(SectionRole::other, part.label, numel * part.operands * size, host_[HostCall::optimizer_launch]));
}

void Writer::add_optimizer(SectionCost& cost, const std::vector<std::uint64_t>& numels, Bytes size) {
  switch (settings_.optimizer) {
    case Optimizer::adam:
    case Optimizer::adam_single:
      return add_adam(cost, numels, size);
    case Optimizer::adam_fused:  // reads p, g, m, v; writes p, m, v
      return add_launches(cost, numels, 4, 7 * size, "aten::_fused_adam_");
    case Optimizer::sgd:  // p += −lr · g
      return add_launches(cost, numels, 2, 3 * size, "aten::_foreach_add_");
  }
}

SectionCost Writer::optimizer() {
  SectionCost cost{Section::optimizer, kRootUnit, Pass::forward, {}, {}};
  std::map<DType, std::vector<std::uint64_t>> numels;  // Optimizer._group_tensors_by_device_and_dtype
  std::size_t parameters = 0;
  for (const Unit& unit : workload_.units)
    for (const Parameter& p : unit.parameters) {
      if (settings_.offload) continue;  // the CPU's work: its time is not modelled, and the workload's estimates say so
      const std::uint64_t numel = local_shard_numel(p, {settings_.shard_ranks(), 0});
      if (numel == 0) continue;
      numels[p.dtype].push_back(numel);
      ++parameters;
    }
  for (const auto& [dtype, of_dtype] : numels) add_optimizer(cost, of_dtype, itemsize(dtype));
  Nanoseconds begin = host_[HostCall::optimizer_begin];
  begin.count += host_[HostCall::optimizer_parameter].count * static_cast<std::int64_t>(parameters);
  if (cost.items.empty())
    cost.host_after = begin;
  else
    cost.items.front().host_before += begin;
  return cost;
}

std::vector<SectionCost> Writer::write() {
  std::vector<SectionCost> out;
  for (const UnitPlan& plan : plans_) {
    if (plan.parameters.empty()) continue;
    for (Pass pass : {Pass::forward, Pass::backward}) {
      out.push_back(all_gather(plan, pass));
      out.push_back(copy_out(plan, pass));
    }
    out.push_back(reduce(plan));
  }
  out.push_back(optimizer());
  return out;
}

}  // namespace

std::vector<std::uint64_t> multi_tensor_launches(const std::vector<std::uint64_t>& numels, std::uint32_t depth) {
  std::vector<std::uint64_t> launches;
  std::uint64_t elements = 0;
  std::uint64_t blocks = 0;
  std::size_t tensors = 0;
  const auto flush = [&] {
    if (blocks > 0) launches.push_back(elements);
    elements = blocks = 0;
    tensors = 0;
  };
  for (std::uint64_t left : numels) {
    if (left == 0) continue;
    ++tensors;
    while (left > 0) {
      const std::uint64_t chunk = std::min(left, kChunkElements);
      left -= chunk;
      elements += chunk;
      ++blocks;
      const bool full = blocks == kMaxBlocks || (left == 0 && tensors == kMaxTensors[depth - 1]);
      if (!full) continue;
      flush();
      if (left > 0) tensors = 1;
    }
  }
  flush();
  return launches;
}

Result<std::vector<SectionCost>> section_costs(Workload& workload, const HostCosts& host) {
  const auto plans = plan_units(workload.settings, workload.units, workload.sm_count);
  if (!plans) return tl::unexpected(plans.error());
  return Writer(workload, host, *plans).write();
}

}  // namespace foreshard::model
