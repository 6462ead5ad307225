#include "core/step/fsdp_kernels.hpp"

#include "core/step/flat_view.hpp"

namespace foreshard {

std::vector<BoundKernel> FsdpKernels::of(const FsdpOp& op) {
  made_.clear();
  return std::visit([&](const auto& o) { return make(o); }, op);
}

const Kernel* FsdpKernels::keep(Kernel kernel) {
  made_.push_back(std::move(kernel));
  return &made_.back();
}

FsdpKernels::Bound FsdpKernels::copy(Address to, DType to_dtype, Address from, DType from_dtype, std::uint64_t numel) {
  Kernel c;
  c.op = KernelOp::copy;
  c.operands = {flat(numel, to_dtype), flat(numel, from_dtype)};
  return {{keep(std::move(c)), {to, from}}};
}

/// Casts as it copies: PyTorch's flat buffer of the casts stays unused.
FsdpKernels::Bound FsdpKernels::make(const CopyIn& op) {
  const ParamGroupPlan& group = plan(op.group);
  if (group.float8_weights > 0) return cast_in(op);
  const bool shards = op.parts.empty();
  auto [it, fresh] =
      cached_.try_emplace(Key{op.group.unit, op.group.index, KernelOp::copy_in, {shards, op.contiguous}});
  Kernel& c = it->second;
  if (fresh) {
    c.op = KernelOp::copy_in;
    std::uint64_t elements = 0;
    c.operands.push_back({});
    for (const ParameterPlan& p : group.parameters) {
      const std::uint64_t wide = shards ? padded(p) : p.clone / itemsize(group.compute);
      c.operands.push_back(shards ? flat(local(p), parameter(p).dtype) : flat(wide, group.compute));
      c.integers.push_back(static_cast<std::int64_t>(wide));
      elements += wide;
    }
    if (op.contiguous) {  // where each shard begins in the whole block
      elements = group.contiguous / itemsize(group.compute);
      for (const ParameterPlan& p : group.parameters)
        c.integers.push_back(static_cast<std::int64_t>((p.offset + mesh_.place(op.over, op.group) * p.cast_shard) /
                                                       itemsize(group.compute)));
    }
    c.operands.front() = flat(elements, group.compute);
  }
  const Bytes part = c.operands.front().numel() * itemsize(group.compute);
  const Bytes first = op.contiguous || op.kept ? 0 : mesh_.place(op.over, op.group) * part;
  BoundKernel out{&c, {memory_.address(op.block) + first}};
  for (std::size_t i = 0; i < group.parameters.size(); ++i)
    out.addresses.push_back(shards ? parameters_[group.parameters[i].id.value].shard : memory_.address(op.parts[i]));
  return {out};
}

std::vector<Bytes> FsdpKernels::parts_of(const CopyIn& op) const {
  const ParamGroupPlan& group = plan(op.group);
  const std::uint32_t place = mesh_.place(op.over, op.group);
  std::vector<Bytes> out;
  Bytes next = place * (group.gather / group.shard_ranks);
  for (const ParameterPlan& p : group.parameters) {
    out.push_back(op.contiguous ? p.offset + place * p.cast_shard : next);
    next += p.cast_shard;
  }
  return out;
}

FsdpKernels::Bound FsdpKernels::cast_in(const CopyIn& op) {
  const ParamGroupPlan& group = plan(op.group);
  auto [it, fresh] = cached_.try_emplace(Key{op.group.unit, op.group.index, KernelOp::copy_in_float8, {}});
  Kernel& c = it->second;
  if (fresh) {
    const TensorView numbers = flat(group.float8_weights, DType::float32);
    c.op = KernelOp::copy_in_float8;
    for (const ParameterPlan& p : group.parameters) c.operands.push_back(flat(padded(p), p.gathered));
    c.operands.push_back(numbers);
    c.operands.back().strides = {Float8Scales::kStride / itemsize(DType::float32)};
    for (const ParameterPlan& p : group.parameters) c.operands.push_back(flat(local(p), parameter(p).dtype));
    c.operands.push_back(numbers);
  }
  BoundKernel out{&c, {}};
  for (const Bytes part : parts_of(op)) out.addresses.push_back(memory_.address(op.block) + part);
  out.addresses.push_back(memory_.address(op.float8.scales) + group.first_float8 * Float8Scales::kStride);
  for (const ParameterPlan& p : group.parameters) out.addresses.push_back(parameters_[p.id.value].shard);
  out.addresses.push_back(memory_.address(op.float8.amaxes) + group.first_float8 * itemsize(DType::float32));
  return {out};
}

FsdpKernels::Bound FsdpKernels::make(const ShardAmaxes& op) {
  const ParamGroupPlan& group = plan(op.group);
  auto [it, fresh] = cached_.try_emplace(Key{op.group.unit, op.group.index, KernelOp::shard_amaxes, {}});
  Kernel& c = it->second;
  if (fresh) {
    c.op = KernelOp::shard_amaxes;
    c.operands.push_back(flat(group.float8_weights, DType::float32));
  }
  BoundKernel out{&c, {memory_.address(op.amaxes) + group.first_float8 * itemsize(DType::float32)}};
  for (const ParameterPlan& p : group.parameters) {
    if (!is_float8(p.gathered)) continue;
    if (fresh) c.operands.push_back(flat(local(p), parameter(p).dtype));
    out.addresses.push_back(parameters_[p.id.value].shard);
  }
  return {out};
}

FsdpKernels::Bound FsdpKernels::make(const CopyOut& op) {
  const ParamGroupPlan& group = plan(op.group);
  const bool shards = op.over == CommunicatorRole::shard;
  auto [it, fresh] = cached_.try_emplace(Key{op.group.unit, op.group.index, KernelOp::copy_out, {shards}});
  Kernel& c = it->second;
  if (fresh) {
    const std::uint32_t ranks = mesh_.ranks(op.over, op.group);
    const DType dtype = group.float8_weights > 0 ? DType::uint8 : group.compute;  // of several dtypes: as bytes
    c.op = KernelOp::copy_out;
    c.integers.push_back(ranks);
    std::uint64_t elements = 0;
    for (const ParameterPlan& p : group.parameters) {
      const std::uint64_t part = (shards ? p.cast_shard : p.clone) / itemsize(dtype);
      c.operands.push_back(flat(part * ranks, dtype));
      c.integers.push_back(static_cast<std::int64_t>(part));
      elements += part;
    }
    c.operands.push_back(flat(elements * ranks, dtype));
  }
  BoundKernel out{&c, {}};
  for (const BufferRef unsharded : op.unsharded) out.addresses.push_back(memory_.address(unsharded));
  out.addresses.push_back(memory_.address(op.block));
  return {out};
}

FsdpKernels::Bound FsdpKernels::make(const CopyOutShards& op) {
  const ParamGroupPlan& group = plan(op.group);
  Bound out;
  made_.reserve(group.parameters.size());
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const ParameterPlan& p = group.parameters[i];
    Kernel c;
    c.op = KernelOp::copy;
    c.operands = {flat(local(p), p.compute), flat(local(p), parameter(p).dtype)};
    out.push_back({keep(std::move(c)), {memory_.address(op.unsharded[i]), parameters_[p.id.value].shard}});
  }
  return out;
}

FsdpKernels::Bound FsdpKernels::make(const KeepPart& op) {
  const ParameterPlan& p = plan(op.group).parameters[op.parameter];
  const Address from = memory_.address(op.unsharded) + mesh_.place(CommunicatorRole::post_forward, op.group) * p.clone;
  return copy(memory_.address(op.part), p.compute, from, p.compute, p.clone / itemsize(p.compute));
}

FsdpKernels::Bound FsdpKernels::make(const AddGradients& op) {
  Bound out;
  made_.reserve(op.sums.size());
  for (const AddGradients::Sum& sum : op.sums) {
    const ParameterPlan& p = plan(op.group).parameters[sum.parameter];
    const std::uint64_t numel = parameter(p).numel();
    const Address accumulated = memory_.address(sum.accumulated);
    Kernel c;
    c.op = KernelOp::add;
    c.operands = {flat(numel, p.reduce), flat(numel, p.reduce), flat(numel, p.compute)};
    out.push_back({keep(std::move(c)), {accumulated, accumulated, memory_.address(sum.gradient)}});
  }
  return out;
}

FsdpKernels::Bound FsdpKernels::make(const CastGradient& op) {
  const ParameterPlan& p = plan(op.group).parameters[op.parameter];
  return copy(memory_.address(op.accumulated), p.reduce, memory_.address(op.gradient), p.compute, parameter(p).numel());
}

FsdpKernels::Bound FsdpKernels::make(const ChunkCat& op) {
  const ParamGroupPlan& group = plan(op.group);
  std::vector<bool> shape(2 * group.parameters.size());  // which take part, and from where
  for (const ChunkCat::Input& input : op.inputs) {
    shape[2 * input.parameter] = true;
    shape[2 * input.parameter + 1] = input.accumulated;
  }
  auto [it, fresh] = cached_.try_emplace(Key{op.group.unit, op.group.index, KernelOp::chunk_cat, std::move(shape)});
  Kernel& c = it->second;
  if (fresh) {
    const std::uint32_t ranks = mesh_.shard(op.group).ranks;
    c.op = KernelOp::chunk_cat;
    c.alpha = op.scale;
    c.integers.push_back(ranks);
    c.operands.push_back({});
    std::uint64_t elements = 0;
    for (const ChunkCat::Input& input : op.inputs) {
      const ParameterPlan& p = group.parameters[input.parameter];
      c.operands.push_back(flat(parameter(p).numel(), input.accumulated ? p.reduce : p.compute));
      c.integers.push_back(static_cast<std::int64_t>(padded(p)));
      elements += padded(p);
    }
    c.operands.front() = flat(elements * ranks, op.sent);
  }
  BoundKernel out{&c, {memory_.address(op.output)}};
  for (const ChunkCat::Input& input : op.inputs) out.addresses.push_back(memory_.address(input.gradient));
  return {out};
}

FsdpKernels::Bound FsdpKernels::make(const CopyReduced& op) {
  const DType dtype = plan(op.group).reduce;
  return copy(memory_.address(op.output), dtype, memory_.address(op.input), dtype, op.numel);
}

FsdpKernels::Bound FsdpKernels::make(const CastBack& op) {
  const ParamGroupPlan& group = plan(op.group);
  return copy(memory_.address(op.output), group.original, memory_.address(op.input), group.reduce, op.numel);
}

FsdpKernels::Bound FsdpKernels::make(const AddReduced& op) {
  Kernel c;
  c.op = KernelOp::add;
  const TensorView view = flat(op.numel, plan(op.group).original);
  c.operands = {view, view, view};
  const Address gradients = memory_.address(op.sharded_gradients);
  return {{keep(std::move(c)), {gradients, gradients, memory_.address(op.reduced)}}};
}

}  // namespace foreshard
