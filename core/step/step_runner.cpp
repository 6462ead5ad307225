#include "core/step/step_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/check.hpp"
#include "core/fsdp/buffer_category.hpp"
#include "core/fsdp/fully_shard.hpp"
#include "core/optimizer/optimizer_state.hpp"
#include "core/step/bindings.hpp"
#include "core/step/program_state.hpp"
#include "core/step/return_events.hpp"
#include "core/step/run_recorder.hpp"
#include "core/step/section_costs.hpp"

namespace foreshard {
namespace {

/// Thrown inside the runner when an allocation fails; never leaves run_steps.
struct AllocationFailed {
  OutOfMemory report;
};

class StepRunner final : public Issuer {
 public:
  StepRunner(const Workload& workload, const Settings& settings, const std::vector<UnitPlan>& plans,
             const AllocatorConfig& config, const StepRequest& request, Device& device, DeviceMemory& memory, Run& run)
      : workload_(workload),
        settings_(settings),
        plans_(plans),
        device_(device),
        recorder_(run, device, request.record),
        returns_(workload.returns, request.repeat_returns, device),
        memory_(memory),
        allocator_(config, memory_, returns_, &recorder_),
        costs_(workload, settings),
        programs_(workload, request.warm),
        fsdp_(settings, plans, *this),
        bind_(request.bind),
        bindings_(workload, settings, plans, request.rank, request.learning_rate),
        observer_(request.observer),
        gradients_(parameter_count()) {
    make_streams();
    make_communicators();
    plan_parameters();
  }

  StepOutcome run(const StepRequest& request);

  // Issuer
  BufferRef allocate(const BufferRequest& request) override;
  void free(BufferRef buffer) override;
  void record_stream(BufferRef buffer, StreamRole stream) override;
  bool took_new_segment() override { return took_new_segment_; }
  bool has_gradient(ParameterId parameter) override { return gradients_[parameter.value].valid(); }
  void free_gradient(ParameterId parameter, Bytes bytes) override;
  EventId record_event(StreamRole stream) override;
  void wait_event(StreamRole stream, EventId event) override;
  void synchronize_event(EventId event) override { device_.synchronize_event(event); }
  void begin_section(Section section, UnitId unit, Pass pass) override;
  void issue(SectionRole role, StreamRole stream) override;
  void issue_collective(StreamRole stream, CommunicatorRole role, UnitId unit, const CollectiveWork& work) override;
  void end_section() override;

 private:
  [[nodiscard]] std::size_t parameter_count() const {
    std::size_t count = 0;
    for (const Unit& unit : workload_.units) count += unit.parameters.size();
    return count;
  }
  [[nodiscard]] StreamId stream(StreamRole role) const { return streams_[static_cast<std::size_t>(role)]; }
  [[nodiscard]] StreamId user_stream(std::uint8_t index);
  void make_streams();
  void make_communicators();
  void plan_parameters();
  void adopt(const SnapshotSegment& segment);
  void adopt_all(ProcessMemory& memory);
  CommunicatorId communicator(CommunicatorRole role, UnitId unit);
  BlockHandle malloc(Bytes bytes, StreamId on, PoolId pool, const BlockRecord& what);
  void free_block(BlockHandle block);
  PoolId pool_of(MemoryKind kind);

  void run_program(const Program& program);
  void run_op(const Op& op);
  void run_alloc(const Op& op);
  void run_free(const Op& op);
  void run_hook(const Op& op);
  void run_optimizer();
  void compute_optimizer(std::size_t& put, std::size_t until);
  [[nodiscard]] Bytes bytes_of(const AllocationSize& size) const;
  void note_op(OpId op, StreamId on);
  [[nodiscard]] bool computing() const { return bind_ && bindings_.computing(); }
  void compute(const BoundComputation& bound, StreamId on, const SectionItem& item, UnitId unit);
  void compute_op(const Op& op, StreamId on);
  void tell_observer(Hook hook);

  const Workload& workload_;
  const Settings& settings_;
  const std::vector<UnitPlan>& plans_;
  Device& device_;
  RunRecorder recorder_;
  ReturnEvents returns_;
  SegmentLog memory_;
  CachingAllocator allocator_;
  SectionCosts costs_;
  ProgramState programs_;
  FullyShard fsdp_;
  bool bind_;
  Bindings bindings_;
  ValueObserver* observer_;

  std::array<StreamId, kStreamRoles> streams_{};
  std::vector<StreamId> user_streams_;
  CommunicatorId shard_;
  CommunicatorId replicate_;
  std::vector<CommunicatorId> post_forward_;  // by unit
  std::array<PoolId, 3> pools_{};             // by MemoryKind
  std::vector<BlockHandle> buffers_;          // by BufferRef
  std::vector<BlockHandle> gradients_;        // by parameter: the user's gradient of this microbatch
  std::map<Address, BlockHandle> adopted_;    // blocks older than the workload, by recorded address
  std::vector<OptimizerParameter> optimizer_parameters_;
  std::vector<const Parameter*> parameters_;  // by ParameterId
  std::vector<UnitId> zero_grad_order_;
  const SectionCost* section_ = nullptr;
  std::uint32_t section_played_ = 0;  // bit per SectionRole
  Nanoseconds section_start_;
  std::int32_t step_ = -1;
  const Program* program_ = nullptr;  // the one that runs
  std::uint32_t microbatch_ = 0;
  bool took_new_segment_ = false;
  std::optional<OpId> last_compute_op_;
  std::uint64_t ops_ = 0;
};

void StepRunner::make_streams() {
  // Priorities: FSDPCommContext.lazy_init (copy-in, all-gather, reduce-scatter high; all-reduce default);
  // a process group's own stream has the default priority.
  const std::array<StreamOptions, kStreamRoles> options{{{"compute", 0},
                                                         {"all-gather copy-in", -1},
                                                         {"all-gather", -1},
                                                         {"reduce-scatter", -1},
                                                         {"all-reduce", 0},
                                                         {"process group", 0}}};
  streams_[0] = kComputeStream;
  recorder_.add_stream(kComputeStream, options[0]);
  for (std::size_t i = 1; i < kStreamRoles; ++i) {
    streams_[i] = device_.create_stream(options[i]);
    recorder_.add_stream(streams_[i], options[i]);
  }
}

StreamId StepRunner::user_stream(std::uint8_t index) {
  if (index == 0) return kComputeStream;
  while (user_streams_.size() < index) {
    const StreamOptions options{fmt::format("user {}", user_streams_.size() + 1), 0};
    user_streams_.push_back(device_.create_stream(options));
    recorder_.add_stream(user_streams_.back(), options);
  }
  return user_streams_[index - 1U];
}

void StepRunner::make_communicators() {
  shard_ =
      device_.create_communicator({"shard", settings_.shard_ranks(), std::min(settings_.shard_ranks(), settings_.gpus),
                                   bindings_.members(CommunicatorRole::shard, 0)});
  if (settings_.replicate > 1)
    replicate_ = device_.create_communicator(
        {"replicate", settings_.replicate,
         std::min(settings_.replicate, std::max(1U, settings_.gpus / settings_.shard_ranks())),
         bindings_.members(CommunicatorRole::replicate, 0)});
  post_forward_.resize(plans_.size());
}

/// Int reshard: every unit builds a mesh, hence a communicator, of its own (fsdp2 semantics 1.6).
CommunicatorId StepRunner::communicator(CommunicatorRole role, UnitId unit) {
  if (role == CommunicatorRole::shard) return shard_;
  if (role == CommunicatorRole::replicate) return replicate_;
  CommunicatorId& own = post_forward_[unit.value];
  if (!own.valid()) {
    const std::uint32_t ranks = plans_[unit.value].reshard.group_size;
    own = device_.create_communicator({fmt::format("post-forward {}", workload_.units[unit.value].name), ranks,
                                       std::min(ranks, settings_.gpus), bindings_.members(role, ranks)});
  }
  return own;
}

void StepRunner::plan_parameters() {
  const ShardGroup group = bindings_.group();
  for (const Unit& unit : workload_.units)
    for (const Parameter& p : unit.parameters) parameters_.push_back(&p);
  std::vector<std::size_t> last_place(plans_.size(), 0);
  std::vector<UnitId> unit_of(parameters_.size());
  for (const UnitPlan& plan : plans_)
    for (const ParameterPlan& p : plan.parameters) unit_of[p.id.value] = plan.id;
  for (std::size_t i = 0; i < workload_.parameters_order.size(); ++i) {
    const ParameterId id = workload_.parameters_order[i];
    const Parameter& p = *parameters_[id.value];
    optimizer_parameters_.push_back({id, local_shard_numel(p, group) * itemsize(p.dtype)});
    last_place[unit_of[id.value].value] = i;
  }
  // An optimizer that was not recognised stays in the program as recorded.
  if (settings_.offload || !workload_.optimizer_known) optimizer_parameters_.clear();
  for (const UnitPlan& plan : plans_)
    if (!plan.parameters.empty()) zero_grad_order_.push_back(plan.id);
  std::stable_sort(zero_grad_order_.begin(), zero_grad_order_.end(),
                   [&](UnitId a, UnitId b) { return last_place[a.value] < last_place[b.value]; });
}

/// What the recorded process held before its recording. An expandable segment's range exists only there,
/// and another allocator configuration would have placed the blocks another way: then they are asked for
/// again, in address order.
void StepRunner::adopt(const SnapshotSegment& segment) {
  const bool as_recorded = !bind_ && !segment.is_expandable && settings_.alloc_conf == workload_.settings.alloc_conf;
  std::vector<BlockHandle> handles;
  if (as_recorded) handles = allocator_.adopt_segment(segment);
  std::size_t next = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state == BlockState::inactive) continue;
    const BlockHandle handle = as_recorded
                                   ? handles[next++]
                                   : malloc(std::max<Bytes>(1, block.requested_size), kComputeStream, kDefaultPool, {});
    adopted_.emplace(block.address, handle);
  }
}

void StepRunner::adopt_all(ProcessMemory& memory) {
  for (const SnapshotSegment& segment : workload_.initial_segments) adopt(segment);
  memory.initial_segments = allocator_.snapshot();
  for (const auto& [recorded, block] : adopted_) memory.older_blocks.emplace(recorded, allocator_.address(block));
  static_cast<void>(memory_.take());  // these are initial_segments
}

BlockHandle StepRunner::malloc(Bytes bytes, StreamId on, PoolId pool, const BlockRecord& what) {
  recorder_.expect_block(what);
  returns_.next_allocation();
  const auto block = allocator_.malloc(bytes, on, pool);
  if (!block) throw AllocationFailed{block.error()};
  recorder_.block_made(*block, allocator_.block_size(*block));
  return *block;
}

PoolId StepRunner::pool_of(MemoryKind kind) {
  if (kind == MemoryKind::device) return kDefaultPool;
  PoolId& pool = pools_[static_cast<std::size_t>(kind)];
  if (!pool.valid()) pool = allocator_.create_pool({false, kind == MemoryKind::symmetric, kind});
  return pool;
}

BufferRef StepRunner::allocate(const BufferRequest& request) {
  took_new_segment_ = false;
  if (request.bytes == 0) return {};
  BlockRecord what;
  what.category = category_of(request.buffer, plans_[request.unit.value].casts_back);
  what.unit = request.unit;
  what.parameter = request.parameter;
  what.step = step_;
  const std::int64_t segments = allocator_.statistics().num_device_alloc;
  buffers_.push_back(malloc(request.bytes, stream(request.stream), pool_of(request.memory), what));
  took_new_segment_ = allocator_.statistics().num_device_alloc != segments;
  const BufferRef buffer{static_cast<std::uint32_t>(buffers_.size() - 1)};
  if (bind_) {
    const auto at_once = bindings_.set_buffer(buffer, request, allocator_.address(buffers_.back()));
    if (at_once) compute(*at_once, stream(request.stream), {}, request.unit);
  }
  return buffer;
}

void StepRunner::free_block(BlockHandle block) {
  returns_.next_free();
  allocator_.free(block);
}

void StepRunner::free(BufferRef buffer) {
  if (!buffer.valid()) return;
  if (bind_) {
    const StreamRole post = settings_.replicate > 1 ? StreamRole::all_reduce : StreamRole::reduce_scatter;
    if (const auto added = bindings_.drop_buffer(buffer)) compute(*added, stream(post), {}, {});
  }
  free_block(buffers_[buffer.value]);
}

void StepRunner::record_stream(BufferRef buffer, StreamRole on) {
  if (buffer.valid()) allocator_.record_stream(buffers_[buffer.value], stream(on));
}

void StepRunner::free_gradient(ParameterId parameter, Bytes) {
  BlockHandle& gradient = gradients_[parameter.value];
  FORESHARD_CHECK(gradient.valid(), "a gradient is freed that no op allocated");
  free_block(gradient);
  gradient = {};
  if (bind_) bindings_.drop_gradient(parameter);
}

EventId StepRunner::record_event(StreamRole on) {
  const EventId event = device_.record_event(stream(on));
  recorder_.event(EventRecord::Kind::record, event, stream(on));
  return event;
}

void StepRunner::wait_event(StreamRole on, EventId event) {
  device_.stream_wait_event(stream(on), event);
  recorder_.event(EventRecord::Kind::wait, event, stream(on));
}

void StepRunner::begin_section(Section section, UnitId unit, Pass pass) {
  section_ = &costs_.find(section, unit, pass);
  section_played_ = 0;
  section_start_ = device_.host_now();
}

void StepRunner::compute(const BoundComputation& bound, StreamId on, const SectionItem& item, UnitId unit) {
  const KernelWork work{item.kernel_class, item.work, item.bytes, 0, item.label};
  const OpId op = device_.launch(on, {work, bound.computation, bound.addresses});
  recorder_.kernel(op, on, item.kernel_class, item.label, unit);
  note_op(op, on);
}

void StepRunner::issue(SectionRole role, StreamRole on) {
  section_played_ |= 1U << static_cast<unsigned>(role);
  if (computing()) {  // one kernel where PyTorch has several; no metadata, whose place is the kernel's parameters
    SectionItem item;
    for (const SectionItem& listed : section_->items)
      if (listed.role == role) {
        device_.host_work(listed.host_before);
        item = listed;
      }
    for (const BoundComputation& bound : bindings_.section(role, section_->unit))
      compute(bound, stream(on), item, section_->unit);
    return;
  }
  for (const SectionItem& item : section_->items) {
    if (item.role != role) continue;
    device_.host_work(item.host_before);
    const bool copy = role == SectionRole::metadata_copy || role == SectionRole::offload_copy;
    OpId op;
    if (copy) {
      const bool out = role == SectionRole::offload_copy && section_->section == Section::reduce;
      op = device_.copy(stream(on),
                        {out ? CopyKind::device_to_host : CopyKind::host_to_device, item.bytes, item.work, item.label});
      recorder_.copy(op, stream(on), item.bytes, item.label, section_->unit);
    } else {
      op = device_.launch(stream(on), {item.kernel_class, item.work, item.bytes, 0, item.label});
      recorder_.kernel(op, stream(on), item.kernel_class, item.label, section_->unit);
    }
    note_op(op, stream(on));
  }
}

void StepRunner::issue_collective(StreamRole on, CommunicatorRole role, UnitId unit, const CollectiveWork& work) {
  const SectionRole wanted =
      work.kind == CollectiveKind::all_reduce ? SectionRole::all_reduce : SectionRole::collective;
  section_played_ |= 1U << static_cast<unsigned>(wanted);
  for (const SectionItem& item : section_->items)
    if (item.role == wanted) device_.host_work(item.host_before);
  const CommunicatorId over = communicator(role, unit);
  CollectiveWork bound = work;
  if (bind_) bindings_.bind(bound, role, unit);
  const OpId op = device_.collective(stream(on), over, bound);
  recorder_.collective(op, stream(on), work, over, unit);
  note_op(op, stream(on));
}

void StepRunner::end_section() {
  const bool emulated = !computing();
  for (const SectionItem& item : section_->items) {  // host time of items that these settings leave out stays out,
    if (item.role != SectionRole::other) continue;   // ops that no rule names run on the compute stream
    if (!emulated || ((section_played_ >> static_cast<unsigned>(SectionRole::other)) & 1U) != 0) break;
    device_.host_work(item.host_before);
    const OpId op = device_.launch(kComputeStream, {item.kernel_class, item.work, item.bytes, 0, item.label});
    recorder_.kernel(op, kComputeStream, item.kernel_class, item.label, section_->unit);
    note_op(op, kComputeStream);
  }
  device_.host_work(section_->host_after);
  recorder_.section(*section_, workload_.units[section_->unit.value].name, section_start_);
  section_ = nullptr;
}

void StepRunner::note_op(OpId op, StreamId on) {
  ++ops_;
  if (on == kComputeStream) last_compute_op_ = op;
}

Bytes StepRunner::bytes_of(const AllocationSize& size) const {
  if (size.kind == AllocationSize::Kind::fixed) return size.bytes;
  if (settings_.offload) return 0;  // shards and what is made like them live on the host
  const Parameter& p = *parameters_[size.parameter.value];
  const ShardGroup group = bindings_.group();
  const std::uint64_t numel =
      size.kind == AllocationSize::Kind::local_shard ? local_shard_numel(p, group) : padded_shard_numel(p, group);
  return numel * itemsize(p.dtype);
}

void StepRunner::run_alloc(const Op& op) {
  const Bytes bytes = bytes_of(op.size);
  if (bytes == 0) return;
  BlockRecord what;
  what.category = op.gradient_of.valid() ? MemoryCategory::gradients : op.category;
  what.parameter = op.gradient_of.valid() ? op.gradient_of : op.size.parameter;
  what.label = op.label;
  what.step = step_;
  const StreamId on = user_stream(op.user_stream);
  const BlockHandle block = malloc(bytes, on, kDefaultPool, what);
  if (bind_) {
    const Address address = allocator_.address(block);
    if (op.tensor.valid()) bindings_.set_tensor(op.tensor, address);  // a gradient needs no name
    if (op.gradient_of.valid()) {
      bindings_.set_gradient(op.gradient_of, address);
      bindings_.keep_gradient(op.gradient_of);
    }
    if (computing() && step_ < 0 && op.size.kind == AllocationSize::Kind::local_shard)
      compute(bindings_.initial_shard(op.size.parameter, address), on, {}, {});
    if (computing() && op.computation != kNoComputation) compute_op(op, on);
  }
  if (!op.gradient_of.valid()) {
    programs_.hold(op.tensor, block);
  } else if (gradients_[op.gradient_of.value].valid()) {
    free_block(block);  // autograd adds it to the gradient that is there and drops it
  } else {
    gradients_[op.gradient_of.value] = block;
  }
}

void StepRunner::run_free(const Op& op) {
  if (op.before_recording) {
    if (const auto it = adopted_.find(op.size.bytes); it != adopted_.end()) {
      free_block(it->second);
      adopted_.erase(it);
    }
    return;
  }
  const BlockHandle block = programs_.take(op);
  if (block.valid()) free_block(block);
}

void StepRunner::run_optimizer() {
  begin_section(Section::optimizer, kRootUnit, Pass::forward);
  const std::size_t launches = computing() ? bindings_.begin_optimizer(step_ + 1) : 0;
  std::size_t put = 0;
  std::map<std::pair<ParameterId, OptimizerSlot>, BlockHandle> temporaries;
  for (const OptimizerEvent& event : optimizer_events(settings_.optimizer, optimizer_parameters_, step_ == 0)) {
    const auto key = std::make_pair(event.parameter, event.slot);
    if (!event.allocates) {
      // What works on a block is put before the block is freed: short of memory, the allocator may then return it to
      // the driver.
      if (computing()) compute_optimizer(put, bindings_.optimizer_until(event.parameter));
      free_block(temporaries.at(key));
      continue;
    }
    BlockRecord what;
    what.category = event.is_state() ? MemoryCategory::optimizer_state : MemoryCategory::optimizer_temporaries;
    what.parameter = event.parameter;
    what.step = step_;
    const BlockHandle block = malloc(event.bytes, kComputeStream, kDefaultPool, what);
    if (!event.is_state()) temporaries[key] = block;
    if (!computing()) continue;
    const DType dtype = parameters_[event.parameter.value]->dtype;
    const Address address = allocator_.address(block);
    bindings_.set_state(event.parameter, event.slot, address);
    if (!event.is_state() || event.slot == OptimizerSlot::step) continue;
    compute(bindings_.zero(address, event.bytes / itemsize(dtype), dtype), kComputeStream, {}, {});
  }
  if (computing()) {
    compute_optimizer(put, launches);
    // A parameter without a gradient has no launch, but the host goes by it.
    for (std::size_t i = launches; i < section_->items.size(); ++i) device_.host_work(section_->items[i].host_before);
  } else {
    issue(SectionRole::other, StreamRole::compute);
  }
  end_section();
  fsdp_.optimizer_stepped();
}

/// Puts the launches from `put` up to `until`.
void StepRunner::compute_optimizer(std::size_t& put, std::size_t until) {
  section_played_ |= 1U << static_cast<unsigned>(SectionRole::other);
  for (; put < until; ++put) {
    if (put < section_->items.size()) device_.host_work(section_->items[put].host_before);
    const OptimizerCall call = bindings_.optimizer(put);
    SectionItem item;
    item.bytes = call.bytes;
    item.label = workload_.labels.find(call.pass->label);
    compute(call.bound, kComputeStream, item, {});
  }
}

void StepRunner::run_hook(const Op& op) {
  switch (op.hook) {
    case Hook::zero_grad:
      microbatch_ = 0;
      bindings_.set_microbatch(0);
      fsdp_.zero_grad(zero_grad_order_);
      break;
    case Hook::microbatch_begin:
      bindings_.set_microbatch(microbatch_++);
      fsdp_.set_requires_gradient_sync(settings_.accumulate_with_sync || microbatch_ >= settings_.accumulate);
      break;
    case Hook::pre_forward:
      fsdp_.pre_forward(op.unit);
      break;
    case Hook::post_forward:
      fsdp_.post_forward(op.unit);
      break;
    case Hook::pre_backward:
      fsdp_.pre_backward(op.unit);
      break;
    case Hook::post_backward:
      fsdp_.post_backward(op.unit);
      break;
    case Hook::backward_final:
      fsdp_.backward_final();
      break;
    case Hook::optimizer_step:
      run_optimizer();
      break;
    case Hook::forward_begin:
    case Hook::forward_end:
    case Hook::backward_begin:
    case Hook::backward_end:
    case Hook::microbatch_end:
    case Hook::optimizer_begin:
    case Hook::optimizer_end:
      recorder_.phase(op.hook, step_);
      if (computing() && observer_ != nullptr) tell_observer(op.hook);
      break;
  }
}

void StepRunner::run_op(const Op& op) {
  device_.host_work(op.host_before);
  switch (op.kind) {
    case OpKind::alloc:
      run_alloc(op);
      break;
    case OpKind::free:
      run_free(op);
      break;
    case OpKind::hook:
      run_hook(op);
      break;
    case OpKind::synchronize:
      device_.synchronize_stream(kComputeStream);
      break;
    case OpKind::kernel: {
      const StreamId on = user_stream(op.user_stream);
      if (computing() && op.computation != kNoComputation) {
        compute_op(op, on);
        break;
      }
      const OpId id = device_.launch(on, op.kernel);
      recorder_.kernel(id, on, op.kernel.kernel_class, op.kernel.label, {});
      note_op(id, on);
      break;
    }
    case OpKind::copy: {
      const StreamId on = user_stream(op.user_stream);
      const OpId id = device_.copy(on, op.copy);
      recorder_.copy(id, on, op.copy.bytes, op.copy.label, {});
      note_op(id, on);
      break;
    }
  }
}

void StepRunner::compute_op(const Op& op, StreamId on) {
  const BoundComputation bound = bindings_.bind(program_->computations[op.computation]);
  const OpId id = device_.launch(on, {op.kernel, bound.computation, bound.addresses});
  recorder_.kernel(id, on, op.kernel.kernel_class, op.kernel.label, {});
  note_op(id, on);
}

void StepRunner::tell_observer(Hook hook) {
  if (hook == Hook::backward_begin)
    if (const auto address = bindings_.loss(*program_)) observer_->loss(step_, *address);
  if (hook == Hook::optimizer_begin) observer_->gradients(step_, bindings_.sharded_gradients());
}

void StepRunner::run_program(const Program& program) {
  program_ = &program;
  programs_.begin(step_);
  if (bind_) bindings_.begin_program(step_, program);
  for (const Op& op : program.ops) run_op(op);
}

StepOutcome StepRunner::run(const StepRequest& request) {
  StepOutcome outcome;
  try {
    adopt_all(outcome.memory);
    returns_.begin_recording();
    if (request.setup) run_program(workload_.setup);
    if (request.setup) device_.synchronize();
    for (step_ = 0; step_ < request.steps; ++step_) {
      StepOutcome::Step step;
      allocator_.reset_peak_statistics();
      step.host_begin = device_.host_now();
      run_program(programs_.program_of(step_));
      step.host_end = device_.host_now();
      step.last_compute_op = last_compute_op_;
      step.peaks = allocator_.peaks();
      step.num_alloc_retries = allocator_.statistics().num_alloc_retries;
      outcome.steps.push_back(step);
      recorder_.step(step_, step.host_begin, step.host_end, step.peaks, allocator_.statistics());
      if (step_ < request.synchronized) device_.synchronize();
    }
  } catch (const AllocationFailed& failed) {
    outcome.out_of_memory = failed.report;
    outcome.out_of_memory_step = step_;
    outcome.out_of_memory_peaks = allocator_.peaks();
  }
  device_.synchronize();
  outcome.ops = ops_;
  outcome.memory.segments = memory_.take();
  outcome.sections_missing = costs_.misses();
  recorder_.finish(allocator_.snapshot());
  return outcome;
}

}  // namespace

Result<StepOutcome> run_steps(const Workload& workload, const Settings& settings, const StepRequest& request,
                              Device& device, DeviceMemory& memory, Run& run) {
  const auto plans = plan_units(settings, workload.units, workload.sm_count);
  if (!plans) return tl::unexpected(plans.error());
  const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
  if (!config) return tl::unexpected(config.error());
  if (workload.steps.empty()) return fail(ErrorKind::input, "the workload has no step");
  StepRunner runner(workload, settings, *plans, *config, request, device, memory, run);
  return runner.run(request);
}

}  // namespace foreshard
