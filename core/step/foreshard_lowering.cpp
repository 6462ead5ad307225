#include "core/step/foreshard_lowering.hpp"

#include <algorithm>
#include <utility>

#include "core/kernel/kernel_cost.hpp"
#include "core/step/flat_view.hpp"
#include "core/step/graph_schedule.hpp"

namespace foreshard {
namespace {

// Streams of core/kernel/kernel.hpp's generator: parameters from 0, batches from here.
constexpr std::int64_t kBatchStream = std::int64_t{1} << 20;
constexpr std::int64_t kMicrobatches = 64;
constexpr std::int64_t kRanks = 4096;
constexpr double kInitialStd = 0.02;  ///< nn.init.normal_(parameter, std=0.02)

KernelWork priced_as(const SectionItem& item) {
  return {item.kernel_class, item.work, item.bytes, 0, item.label};
}

}  // namespace

ForeshardLowering::ForeshardLowering(const LoweringContext& context)
    : context_(context),
      parameters_(context.parameters.size()),
      player_(context.workload, context.settings, context.emitter, context.recorder),
      collectives_(context),
      kernels_(context, parameters_) {}

void ForeshardLowering::begin_program(std::int32_t step, const Program& program) {
  if (step == 0) setup_tensors_ = tensors_;
  step_ = step;
  microbatches_ = 0;
  program_ = &program;
  loss_was_read_ = false;
  if (graph_phase(context_.settings, context_.request.warm, step) == GraphPhase::replay) return;
  std::uint32_t tensors = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc && op.tensor.valid()) tensors = std::max(tensors, op.tensor.value + 1);
  tensors_.assign(tensors, 0);
}

void ForeshardLowering::on_hook(Hook hook) {
  if (hook == Hook::microbatch_begin) ++microbatches_;
  ValueObserver* observer = context_.request.observer;
  if (observer == nullptr) return;
  if (hook == Hook::backward_begin && !context_.emitter.capturing()) read_loss();
  if (hook != Hook::optimizer_begin) return;
  if (!loss_was_read_ && loss_outlives_passes()) read_loss();  // of a captured or replayed step
  observer->gradients(step_, sharded_gradients());
}

void ForeshardLowering::read_loss() {
  if (!program_->loss.valid() || tensors_[program_->loss.value] == 0) return;
  context_.request.observer->loss(step_, tensors_[program_->loss.value]);
  loss_was_read_ = true;
}

bool ForeshardLowering::loss_outlives_passes() const {
  const auto end = program_->ops.begin() + static_cast<std::ptrdiff_t>(captured_ops(*program_).end);
  return std::none_of(program_->ops.begin(), end, [this](const Op& op) {
    return op.kind == OpKind::free && op.tensor == program_->loss && op.steps_ago == 0 && !op.from_setup;
  });
}

/// A shard is filled with its initial value: normal of stream i, where i is its place in model.parameters().
void ForeshardLowering::allocated(const Op& op, BlockHandle block, StreamId on) {
  const Address address = context_.memory.address(block);
  if (op.tensor.valid()) tensors_[op.tensor.value] = address;  // a gradient needs no name
  if (step_ < 0 && op.size.kind == AllocationSize::Kind::local_shard) {
    const Parameter& parameter = *context_.parameters[op.size.parameter].parameter;
    const ShardGroup shard = context_.mesh.shard();
    parameters_[op.size.parameter.value].shard = address;
    compute_whole(KernelOp::random_normal, kInitialStd,
                  {context_.parameters[op.size.parameter].place,
                   static_cast<std::int64_t>(padded_shard_numel(parameter, shard) * shard.of(parameter).rank)},
                  address, local_shard_numel(parameter, shard), parameter.dtype, on);
  }
  if (op.kernel_index != kNoKernel) compute(program_->kernels[op.kernel_index], op.kernel, on);
}

void ForeshardLowering::kernel(const Op& op, StreamId on) {
  if (op.kernel_index == kNoKernel)
    context_.emitter.kernel(on, op.kernel, {});
  else
    compute(program_->kernels[op.kernel_index], op.kernel, on);
}

Address ForeshardLowering::address_of(const Operand& operand) const {
  switch (operand.kind) {
    case Operand::Kind::none:
      break;
    case Operand::Kind::tensor:
      return tensors_[operand.id];
    case Operand::Kind::setup:
      return step_ < 0 ? tensors_[operand.id] : setup_tensors_[operand.id];
    case Operand::Kind::parameter: {
      const ParameterEntry& entry = context_.parameters[ParameterId{operand.id}];
      const ParameterId first = context_.plans[entry.group.unit.value].groups[entry.group.index].parameters.front().id;
      const FullyShard::Unsharded parameter = context_.fsdp.unsharded(entry.group, operand.id - first.value);
      return parameter.buffer.valid() ? context_.memory.address(parameter.buffer) + parameter.offset : 0;
    }
    case Operand::Kind::gradient:
      return context_.memory.gradient_address(ParameterId{operand.id});
    case Operand::Kind::scale:
      return context_.memory.address(context_.fsdp.float8_scales().scales) +
             context_.parameters[ParameterId{operand.id}].plan->float8_place * Float8Scales::kStride;
  }
  return 0;
}

void ForeshardLowering::compute(const ProgramKernel& what, const KernelWork& work, StreamId on) {
  BoundKernel bound{&what.kernel, {}};
  for (const Operand& operand : what.where) bound.addresses.push_back(address_of(operand));
  Kernel own;  // with this batch's stream
  if (makes_batch(what.kernel)) {
    own = what.kernel;
    const std::int64_t microbatch = microbatches_ > 0 ? microbatches_ - 1 : 0;
    own.integers[0] = kBatchStream + (step_ * kMicrobatches + microbatch) * kRanks + context_.mesh.rank();
    bound.kernel = &own;
  }
  context_.emitter.compute(on, work, bound, {});
}

/// A kernel over one whole block that no captured item stands for.
void ForeshardLowering::compute_whole(KernelOp op, double alpha, std::vector<std::int64_t> integers, Address address,
                                      std::uint64_t numel, DType dtype, StreamId on) {
  Kernel c;
  c.op = op;
  c.alpha = alpha;
  c.operands = {flat(numel, dtype)};
  c.integers = std::move(integers);
  context_.emitter.compute(on, priced_as({}), {&c, {address}}, {});
}

/// A recorded step has one section of the optimizer, and so has a model's: what each launch costs the host is there.
void ForeshardLowering::begin_section(Section section, ParamGroupId group, Pass pass) {
  if (section == Section::optimizer)
    player_.begin(section, {kRootUnit, 0}, Pass::forward);
  else
    player_.begin(section, group, pass);
}

void ForeshardLowering::issue(const FsdpOp& op, StreamRole stream) {
  const StreamId on = context_.streams[stream];
  if (const auto* step = std::get_if<StepOptimizer>(&op)) {
    std::vector<ShardedGradient> gradients;
    add_sharded_gradients(step->group, gradients);
    // At optimizer_begin these gradients are freed.
    const bool last_time = context_.settings.optimizer_overlap == OptimizerOverlap::backward;
    if (last_time && context_.request.observer != nullptr) context_.request.observer->gradients(step_, gradients);
    spend_optimizer(gradients.size());
    step_optimizer(optimizer_part(step->group), std::move(gradients));
    return;
  }
  SectionItem item;
  for (const SectionRole role : roles_of(op)) item = player_.spend(role);
  if (is_collective(op)) {
    collectives_.issue(op, on);
    return;
  }
  // Of these the last item is of one parameter, and of one of a cast and a copy.
  const bool by_kernel = item.role == SectionRole::gradient_add || std::holds_alternative<CopyOutShards>(op);
  for (const BoundKernel& bound : kernels_.of(op)) {
    if (by_kernel) item.bytes = kernel_cost(*bound.kernel).bytes;
    context_.emitter.compute(on, priced_as(item), bound, group_of(op).unit);
  }
}

std::vector<ShardedGradient> ForeshardLowering::sharded_gradients() const {
  std::vector<ShardedGradient> out;
  for (const UnitPlan& unit : context_.plans)
    for (std::uint32_t g = 0; g < unit.groups.size(); ++g) add_sharded_gradients({unit.id, g}, out);
  return out;
}

void ForeshardLowering::add_sharded_gradients(ParamGroupId group, std::vector<ShardedGradient>& out) const {
  const BufferRef block = context_.fsdp.sharded_gradients(group);
  if (!block.valid()) return;
  const ShardGroup shard = context_.mesh.shard();
  Address address = context_.memory.address(block);
  for (const std::size_t index : context_.fsdp.reduced(group)) {
    const ParameterId id = context_.plans[group.unit.value].groups[group.index].parameters[index].id;
    const Parameter& p = *context_.parameters[id].parameter;
    const std::uint64_t padded = padded_shard_numel(p, shard);
    out.push_back(
        {id, p.dtype, padded * shard.of(p).rank, local_shard_numel(p, shard), address, parameters_[id.value].shard});
    address += padded * itemsize(p.dtype);
  }
}

ForeshardLowering::OptimizerPart& ForeshardLowering::optimizer_part(std::optional<ParamGroupId> group) {
  const ParamGroupId key = group.value_or(ParamGroupId{kRootUnit, 0});
  if (const auto made = optimizer_parts_.find({key.unit, key.index}); made != optimizer_parts_.end())
    return made->second;
  const Settings& settings = context_.settings;
  const StreamId on = group ? context_.streams[StreamRole::optimizer] : kComputeStream;
  OptimizerPart part{
      {context_.workload, settings, context_.parameters, context_.mesh.shard(), context_.memory, group, on},
      {settings.optimizer, context_.request.learning_rate, context_.parameters, parameters_},
      on};
  return optimizer_parts_.emplace(std::pair{key.unit, key.index}, std::move(part)).first->second;
}

void ForeshardLowering::set_optimizer_memory(const OptimizerPart& part, const OptimizerEvent& event,
                                             BlockHandle block) {
  ParameterMemory& memory = parameters_[event.parameter.value];
  const Address address = context_.memory.address(block);
  if (event.slot == OptimizerSlot::exp_avg) memory.exp_avg = address;
  if (event.slot == OptimizerSlot::exp_avg_sq) memory.exp_avg_sq = address;
  if (event.slot == OptimizerSlot::sqrt) memory.sqrt = address;
  if (event.slot == OptimizerSlot::denominator) memory.denominator = address;
  if (!event.is_state() || event.slot == OptimizerSlot::step) return;
  const DType dtype = context_.parameters[event.parameter].parameter->dtype;
  compute_whole(KernelOp::fill, 0, {}, address, event.bytes / itemsize(dtype), dtype, part.on);
}

void ForeshardLowering::optimizer_step(std::int32_t) {
  begin_section(Section::optimizer, {kRootUnit, 0}, Pass::forward);
  const std::size_t launches = step_optimizer(optimizer_part({}), sharded_gradients());
  // A parameter without a gradient has no launch, but the host goes by it.
  for (std::size_t i = launches; i < player_.items().size(); ++i)
    context_.emitter.host_work(player_.items()[i].host_before);
  player_.end();
}

/// One kernel over each group's flat block, where PyTorch has one a parameter.
void ForeshardLowering::zero_gradients() {
  player_.begin(Section::zero_grad, {kRootUnit, 0}, Pass::forward);
  SectionItem item = player_.spend(SectionRole::other);
  for (const UnitPlan& unit : context_.plans)
    for (std::uint32_t g = 0; g < unit.groups.size(); ++g) {
      const BufferRef block = context_.fsdp.sharded_gradients({unit.id, g});
      if (!block.valid()) continue;
      std::uint64_t numel = 0;
      for (const std::size_t index : context_.fsdp.reduced({unit.id, g}))
        numel += unit.groups[g].parameters[index].shard / unit.groups[g].cast_output_itemsize;
      Kernel zero;
      zero.op = KernelOp::fill;
      zero.alpha = 0;
      zero.operands = {flat(numel, unit.groups[g].original)};
      item.bytes = kernel_cost(zero).bytes;
      context_.emitter.compute(kComputeStream, priced_as(item), {&zero, {context_.memory.address(block)}}, unit.id);
    }
  player_.end();
}

Address ForeshardLowering::cast_of(ParameterId parameter) const {
  const ParameterEntry& entry = context_.parameters[parameter];
  const BufferRef input = context_.fsdp.kept_input(entry.group);
  return input.valid() ? context_.memory.address(input) + entry.plan->kept_offset : 0;
}

/// What works on a block is issued before the block is freed: short of memory, the allocator may then return it to the
/// driver.
std::size_t ForeshardLowering::step_optimizer(OptimizerPart& part, std::vector<ShardedGradient> gradients) {
  for (const ShardedGradient& gradient : gradients)
    parameters_[gradient.parameter.value].cast = cast_of(gradient.parameter);
  const std::size_t launches = part.launches.begin(step_ + 1, std::move(gradients));
  std::size_t issued = 0;
  part.blocks.step(
      !std::exchange(part.stepped, true),
      [&](const OptimizerEvent& event, BlockHandle block) { set_optimizer_memory(part, event, block); },
      [&](const OptimizerEvent& event) { launch_optimizer(part, issued, part.launches.until(event.parameter)); });
  launch_optimizer(part, issued, launches);
  return launches;
}

/// Of the host's time for a whole step, the share of so many parameters: what PyTorch's host does for each is most of
/// it.
void ForeshardLowering::spend_optimizer(std::size_t parameters) {
  const auto trained = static_cast<double>(
      std::count_if(context_.workload.parameters_order.begin(), context_.workload.parameters_order.end(),
                    [this](ParameterId id) { return context_.parameters[id].parameter->requires_grad; }));
  Nanoseconds whole;
  for (const SectionItem& item : player_.items()) whole.count += item.host_before.count;
  context_.emitter.host_work(whole.scaled(static_cast<double>(parameters) / std::max(1.0, trained)));
}

/// Issues the launches from `issued` up to `until`; of all parameters, each after the host time of its item.
void ForeshardLowering::launch_optimizer(OptimizerPart& part, std::size_t& issued, std::size_t until) {
  for (; issued < until; ++issued) {
    if (part.on == kComputeStream && issued < player_.items().size())
      context_.emitter.host_work(player_.items()[issued].host_before);
    const OptimizerCall call = part.launches.launch(issued);
    SectionItem item;
    item.bytes = call.bytes;
    item.label = context_.workload.labels.find(call.pass->label);
    context_.emitter.compute(part.on, priced_as(item), call.bound, {});
  }
}

}  // namespace foreshard
