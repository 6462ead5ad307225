#include "core/step/bindings.hpp"

#include <algorithm>

#include "core/step/flat_view.hpp"

namespace foreshard {
namespace {

// Streams of core/kernel/computation.hpp's generator: parameters from 0, batches from here.
constexpr std::int64_t kBatchStream = std::int64_t{1} << 20;
constexpr std::int64_t kMicrobatches = 64;
constexpr std::int64_t kRanks = 4096;
constexpr double kInitialStd = 0.02;  ///< nn.init.normal_(parameter, std=0.02)

}  // namespace

Bindings::Bindings(const Workload& workload, const Settings& settings, const std::vector<UnitPlan>& plans,
                   std::uint32_t rank, double learning_rate)
    : workload_(workload),
      settings_(settings),
      plans_(plans),
      group_{settings.shard_ranks(), rank % settings.shard_ranks()},
      rank_(rank),
      learning_rate_(learning_rate),
      computing_(computes(workload) && !settings.offload),
      units_(plans.size()) {
  for (const UnitPlan& plan : plans)
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      ParameterPlace place;
      place.parameter = &workload.units[plan.id.value].parameters[i];
      place.unit = plan.id;
      place.index = i;
      place.compute = plan.parameters[i].compute;
      place.reduce = plan.parameters[i].reduce;
      parameters_.push_back(place);
    }
  for (std::size_t i = 0; i < workload.parameters_order.size(); ++i)
    parameters_[workload.parameters_order[i].value].place = static_cast<std::uint32_t>(i);
}

std::vector<std::uint32_t> Bindings::members(CommunicatorRole role, std::uint32_t post_forward_ranks) const {
  std::vector<std::uint32_t> out;
  const std::uint32_t first = rank_ - group_.rank;  // of this rank's shard group: the mesh is (replicate, shard)
  if (role == CommunicatorRole::replicate) {
    for (std::uint32_t r = 0; r < settings_.replicate; ++r) out.push_back(r * group_.ranks + group_.rank);
  } else if (role == CommunicatorRole::shard) {
    for (std::uint32_t r = 0; r < group_.ranks; ++r) out.push_back(first + r);
  } else {
    const std::uint32_t begin = group_.rank / post_forward_ranks * post_forward_ranks;
    for (std::uint32_t r = 0; r < post_forward_ranks; ++r) out.push_back(first + begin + r);
  }
  return out;
}

void Bindings::begin_program(std::int32_t step, const Program& program) {
  if (step == 0) setup_tensors_ = tensors_;
  step_ = step;
  std::uint32_t tensors = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc) tensors = std::max(tensors, op.tensor.value + 1);
  tensors_.assign(tensors, 0);
}

void Bindings::set_state(ParameterId parameter, OptimizerSlot slot, Address address) {
  ParameterPlace& place = parameters_[parameter.value];
  if (slot == OptimizerSlot::exp_avg) place.exp_avg = address;
  if (slot == OptimizerSlot::exp_avg_sq) place.exp_avg_sq = address;
  if (slot == OptimizerSlot::sqrt) place.sqrt = address;
  if (slot == OptimizerSlot::denominator) place.denominator = address;
}

std::uint64_t Bindings::padded(const ParameterPlace& place) const {
  return padded_shard_numel(*place.parameter, group_);
}
std::uint64_t Bindings::local(const ParameterPlace& place) const {
  return local_shard_numel(*place.parameter, group_);
}

const Computation* Bindings::keep(Computation computation) {
  made_.push_back(std::move(computation));
  return &made_.back();
}

BoundComputation Bindings::convert(Address to, DType to_dtype, Address from, DType from_dtype, std::uint64_t numel) {
  made_.clear();
  Computation c;
  c.function = Function::copy;
  c.operands = {flat(numel, to_dtype), flat(numel, from_dtype)};
  return {keep(std::move(c)), {to, from}};
}

BoundComputation Bindings::zero(Address address, std::uint64_t numel, DType dtype) {
  made_.clear();
  Computation c;
  c.function = Function::fill;
  c.alpha = 0;
  c.operands = {flat(numel, dtype)};
  return {keep(std::move(c)), {address}};
}

BoundComputation Bindings::initial_shard(ParameterId parameter, Address address) {
  ParameterPlace& place = parameters_[parameter.value];
  place.shard = address;
  made_.clear();
  Computation c;
  c.function = Function::random_normal;
  c.alpha = kInitialStd;
  c.operands = {flat(local(place), place.parameter->dtype)};
  c.integers = {place.place, static_cast<std::int64_t>(padded(place) * group_.rank)};
  return {keep(std::move(c)), {address}};
}

BoundComputation Bindings::bind(const ProgramComputation& program) {
  BoundComputation out{&program.computation, {}};
  for (const Operand& operand : program.where) {
    switch (operand.kind) {
      case Operand::Kind::none:
        out.addresses.push_back(0);
        break;
      case Operand::Kind::tensor:
        out.addresses.push_back(tensors_[operand.id]);
        break;
      case Operand::Kind::setup:
        out.addresses.push_back(step_ < 0 ? tensors_[operand.id] : setup_tensors_[operand.id]);
        break;
      case Operand::Kind::parameter:
        out.addresses.push_back(parameters_[operand.id].unsharded);
        break;
      case Operand::Kind::gradient:
        out.addresses.push_back(parameters_[operand.id].gradient);
        break;
    }
  }
  const Function function = program.computation.function;
  const bool batch = function == Function::random_tokens || function == Function::random_normal;
  if (batch && program.computation.integers[0] < 0) {
    made_.clear();
    Computation c = program.computation;
    c.integers[0] = kBatchStream + (step_ * kMicrobatches + microbatch_) * kRanks + rank_;
    out.computation = keep(std::move(c));
  }
  return out;
}

std::optional<Address> Bindings::loss(const Program& program) const {
  if (!program.loss.valid() || tensors_[program.loss.value] == 0) return std::nullopt;
  return tensors_[program.loss.value];
}

std::vector<ShardedGradient> Bindings::sharded_gradients() const {
  std::vector<ShardedGradient> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterPlace& place = parameters_[i];
    const UnitPlace& unit = units_[place.unit.value];
    if (!place.reduced_at || !unit.sharded.valid()) continue;
    const DType dtype = place.parameter->dtype;
    out.push_back({ParameterId{static_cast<std::uint32_t>(i)}, dtype, padded(place) * group_.rank, local(place),
                   unit.sharded_address + *place.reduced_at * itemsize(dtype), place.shard});
  }
  return out;
}

}  // namespace foreshard
