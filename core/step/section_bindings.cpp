// What FSDP2's sections compute: casts, copies and collectives of one unit.
#include "core/step/bindings.hpp"
#include "core/step/flat_view.hpp"

namespace foreshard {

/// Elements of one rank's part of a unit's gather.
std::uint64_t Bindings::part_elements(UnitId unit) const {
  std::uint64_t elements = 0;
  for (const ParameterPlan& p : plan_of(unit)) elements += padded(parameters_[p.id.value]);
  return elements;
}

DType Bindings::stored(UnitId unit) const {
  return parameters_[plan_of(unit).front().id.value].parameter->dtype;
}

std::optional<BoundComputation> Bindings::set_buffer(BufferRef buffer, const BufferRequest& request, Address address) {
  if (buffers_.size() <= buffer.value) buffers_.resize(buffer.value + 1);
  buffers_[buffer.value] = {request, address};
  UnitPlace& unit = units_[request.unit.value];
  ParameterPlace* place = request.parameter.valid() ? &parameters_[request.parameter.value] : nullptr;
  const bool alone = plans_[request.unit.value].shard_ranks == 1;
  switch (request.buffer) {
    case Buffer::gather:
      unit.gather = address;
      unit.small = parameters_[plan_of(request.unit).front().id.value].clone != 0;
      break;
    case Buffer::unsharded:
      place->unsharded = address;
      break;
    case Buffer::clone: {
      place->clone = address;
      const std::uint32_t ranks = plans_[request.unit.value].reshard.group_size;
      const Address from = place->unsharded + group_.rank % ranks * request.bytes;
      if (!computing_) break;
      return convert(address, place->compute, from, place->compute, request.bytes / itemsize(place->compute));
    }
    case Buffer::accumulated_gradient:
      place->accumulated = address;
      if (!computing_) break;
      return convert(address, place->reduce, place->gradient, place->compute, place->parameter->numel());
    case Buffer::reduce_input:
      unit.reduce_input = address;
      unit.sent = *request.dtype;
      break;
    case Buffer::reduce_output: {
      unit.reduce_output = address;
      const DType dtype = plans_[request.unit.value].reduce;
      if (!plans_[request.unit.value].casts_back && !unit.sharded.valid()) {
        unit.sharded = buffer;
        unit.sharded_address = address;
      }
      if (!alone || !computing_) break;
      return convert(address, dtype, unit.reduce_input, dtype, request.bytes / itemsize(dtype));
    }
    case Buffer::cast_output:
      unit.cast_output = address;
      if (!unit.sharded.valid()) {
        unit.sharded = buffer;
        unit.sharded_address = address;
      }
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::optional<BoundComputation> Bindings::drop_buffer(BufferRef buffer) {
  if (!buffer.valid()) return std::nullopt;
  const BufferPlace& place = buffers_[buffer.value];
  const BufferRequest& request = place.request;
  UnitPlace& unit = units_[request.unit.value];
  switch (request.buffer) {
    case Buffer::clone:
      parameters_[request.parameter.value].clone = 0;
      return std::nullopt;
    case Buffer::accumulated_gradient:
      parameters_[request.parameter.value].accumulated = 0;
      return std::nullopt;
    case Buffer::reduce_output:
    case Buffer::cast_output:
      break;
    default:
      return std::nullopt;
  }
  if (buffer == unit.sharded) {
    unit.sharded = {};
    return std::nullopt;
  }
  const bool reduced = request.buffer == Buffer::cast_output || !plans_[request.unit.value].casts_back;
  if (!reduced || !unit.sharded.valid() || !computing_) return std::nullopt;
  made_.clear();  // sharded_param.grad += new_sharded_grad (foreach_reduce)
  Computation c;
  c.function = Function::add;
  const TensorView view = flat(request.bytes / itemsize(stored(request.unit)), stored(request.unit));
  c.operands = {view, view, view};
  return BoundComputation{keep(std::move(c)), {unit.sharded_address, unit.sharded_address, place.address}};
}

std::vector<BoundComputation> Bindings::section(SectionRole role, UnitId unit) {
  if (!computing_) return {};
  switch (role) {
    case SectionRole::copy_in:  // casts as it copies: the flat buffer of the casts stays unused
      return copy_in(unit);
    case SectionRole::split:
      return copy_out(unit);
    case SectionRole::chunk_cat:
      return chunk_cat(unit);
    case SectionRole::gradient_add:
      return add_gradients(unit);
    case SectionRole::cast_back: {
      const UnitPlace& place = units_[unit.value];
      const DType reduce = plans_[unit.value].reduce;
      std::uint64_t elements = 0;
      for (const ParameterPlan& p : plan_of(unit))
        if (parameters_[p.id.value].reduced_at) elements += padded(parameters_[p.id.value]);
      return {convert(place.cast_output, stored(unit), place.reduce_output, reduce, elements)};
    }
    default:
      return {};
  }
}

std::vector<BoundComputation> Bindings::copy_in(UnitId unit) {
  const UnitPlace& place = units_[unit.value];
  const DType compute = parameters_[plan_of(unit).front().id.value].compute;
  auto [it, fresh] = cached_.try_emplace(Key{unit, Function::copy_in, {place.small}});
  Computation& c = it->second;
  const auto clone_elements = [&](const ParameterPlan& p) { return p.clone / itemsize(compute); };
  if (fresh) {
    c.function = Function::copy_in;
    std::uint64_t elements = 0;
    c.operands.push_back({});
    for (const ParameterPlan& p : plan_of(unit)) {
      const ParameterPlace& at = parameters_[p.id.value];
      const std::uint64_t wide = place.small ? clone_elements(p) : padded(at);
      c.operands.push_back(place.small ? flat(wide, compute) : flat(local(at), at.parameter->dtype));
      c.integers.push_back(static_cast<std::int64_t>(wide));
      elements += wide;
    }
    c.operands.front() = flat(elements, compute);
  }
  const std::uint32_t part = place.small ? group_.rank % plans_[unit.value].reshard.group_size : group_.rank;
  BoundComputation out{&c, {place.gather + part * c.operands.front().numel() * itemsize(compute)}};
  for (const ParameterPlan& p : plan_of(unit)) {
    const ParameterPlace& at = parameters_[p.id.value];
    out.addresses.push_back(place.small ? at.clone : at.shard);
  }
  return {out};
}

std::vector<BoundComputation> Bindings::copy_out(UnitId unit) {
  const UnitPlace& place = units_[unit.value];
  const UnitPlan& plan = plans_[unit.value];
  if (plan.shard_ranks == 1) {  // straight from the shards
    std::vector<BoundComputation> out;
    made_.clear();
    made_.reserve(plan.parameters.size());
    for (const ParameterPlan& p : plan.parameters) {
      const ParameterPlace& at = parameters_[p.id.value];
      Computation c;
      c.function = Function::copy;
      c.operands = {flat(local(at), at.compute), flat(local(at), at.parameter->dtype)};
      out.push_back({keep(std::move(c)), {at.unsharded, at.shard}});
    }
    return out;
  }
  auto [it, fresh] = cached_.try_emplace(Key{unit, Function::copy_out, {place.small}});
  Computation& c = it->second;
  if (fresh) {
    const std::uint32_t ranks = place.small ? plan.reshard.group_size : group_.ranks;
    c.function = Function::copy_out;
    c.integers.push_back(ranks);
    std::uint64_t elements = 0;
    const DType compute = parameters_[plan.parameters.front().id.value].compute;
    for (const ParameterPlan& p : plan.parameters) {
      const ParameterPlace& at = parameters_[p.id.value];
      const std::uint64_t part = place.small ? p.clone / itemsize(compute) : padded(at);
      c.operands.push_back(flat(part * ranks, compute));
      c.integers.push_back(static_cast<std::int64_t>(part));
      elements += part;
    }
    c.operands.push_back(flat(elements * ranks, compute));
  }
  BoundComputation out{&c, {}};
  for (const ParameterPlan& p : plan.parameters) out.addresses.push_back(parameters_[p.id.value].unsharded);
  out.addresses.push_back(place.gather);
  return {out};
}

/// Gradients of this microbatch, or accumulated ones, into the reduce-scatter's input (_fsdp_collectives.py,
/// foreach_reduce_scatter_copy_in).
std::vector<BoundComputation> Bindings::chunk_cat(UnitId unit) {
  std::vector<bool> shape;  // which take part, and from where
  for (const ParameterPlan& p : plan_of(unit)) {
    const ParameterPlace& at = parameters_[p.id.value];
    shape.push_back(at.accumulated != 0);
    shape.push_back(at.accumulated != 0 || at.has_gradient);
  }
  auto [it, fresh] = cached_.try_emplace(Key{unit, Function::chunk_cat, shape});
  Computation& c = it->second;
  std::uint64_t elements = 0;
  BoundComputation out{&c, {units_[unit.value].reduce_input}};
  if (fresh) c.operands.push_back({});
  const DType sent = units_[unit.value].sent;
  for (std::size_t i = 0; i < plan_of(unit).size(); ++i) {
    ParameterPlace& at = parameters_[plan_of(unit)[i].id.value];
    at.reduced_at.reset();
    if (!shape[2 * i + 1]) continue;
    at.reduced_at = elements;
    elements += padded(at);
    out.addresses.push_back(at.accumulated != 0 ? at.accumulated : at.gradient);
    if (!fresh) continue;
    c.operands.push_back(flat(at.parameter->numel(), at.accumulated != 0 ? at.reduce : at.compute));
    c.integers.push_back(static_cast<std::int64_t>(padded(at)));
  }
  if (fresh) {
    c.function = Function::chunk_cat;
    c.operands.front() = flat(elements * group_.ranks, sent);
    c.integers.insert(c.integers.begin(), group_.ranks);
    if (settings_.reduce_scatter == Transport::symmetric) c.alpha = 1.0 / group_.ranks;
  }
  return {out};
}

std::vector<BoundComputation> Bindings::add_gradients(UnitId unit) {
  std::vector<BoundComputation> out;
  made_.clear();
  made_.reserve(plan_of(unit).size());
  for (const ParameterPlan& p : plan_of(unit)) {
    const ParameterPlace& at = parameters_[p.id.value];
    if (at.accumulated == 0 || !at.has_gradient) continue;
    Computation c;
    c.function = Function::add;
    const std::uint64_t numel = at.parameter->numel();
    c.operands = {flat(numel, at.reduce), flat(numel, at.reduce), flat(numel, at.compute)};
    out.push_back({keep(std::move(c)), {at.accumulated, at.accumulated, at.gradient}});
  }
  return out;
}

void Bindings::bind(CollectiveWork& work, CommunicatorRole role, UnitId unit) const {
  const UnitPlace& place = units_[unit.value];
  const ParameterPlace& first = parameters_[plan_of(unit).front().id.value];
  switch (work.kind) {
    case CollectiveKind::all_gather: {
      const std::uint32_t ranks =
          role == CommunicatorRole::post_forward ? plans_[unit.value].reshard.group_size : group_.ranks;
      work.dtype = first.compute;
      work.output = place.gather;
      work.input = place.gather + group_.rank % ranks * (work.bytes / ranks);
      break;
    }
    case CollectiveKind::reduce_scatter:
      work.input = place.reduce_input;
      work.output = place.reduce_output;
      if (work.transport == Transport::symmetric) work.reduction = Reduction::sum;  // NCCL's symmetric kernels add
      break;
    case CollectiveKind::all_reduce:
      work.dtype = first.reduce;
      work.input = work.output = place.reduce_output;
      break;
  }
}

}  // namespace foreshard
