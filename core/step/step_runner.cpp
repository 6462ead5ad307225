#include "core/step/step_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "core/base/check_context.hpp"
#include "core/device/host_stopped.hpp"
#include "core/fsdp/fully_shard.hpp"
#include "core/run/allocation_names.hpp"
#include "core/settings/carried_out.hpp"
#include "core/step/graph_schedule.hpp"
#include "core/step/library_workspaces.hpp"
#include "core/step/op_emitter.hpp"
#include "core/step/parameter_table.hpp"
#include "core/step/rank_mesh.hpp"
#include "core/step/run_recorder.hpp"
#include "core/step/step_backend.hpp"
#include "core/step/step_lowering.hpp"
#include "core/step/step_memory.hpp"
#include "core/step/step_repeat.hpp"
#include "core/step/step_streams.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard {
namespace {

/// Walks the program of each step and hands its ops on.
class StepRunner {
 public:
  StepRunner(const Workload& workload, const Settings& settings, const std::vector<UnitPlan>& plans,
             const AllocatorConfig& config, const StepRequest& request, Device& device, DeviceMemory& memory, Run& run)
      : workload_(workload),
        settings_(settings),
        request_(request),
        device_(device),
        recorder_(run, device, request.record, request.ops_alone, request.counts_events),
        mesh_(settings, plans, request.rank),
        parameters_(workload, plans),
        streams_(workload, settings, mesh_, device, recorder_),
        memory_(workload, plans, config, {request.warm, request.repeat_returns}, streams_, device, memory, recorder_),
        emitter_(device, recorder_),
        lowering_(make_lowering(
            {workload, settings, plans, request, parameters_, mesh_, streams_, memory_, emitter_, recorder_, fsdp_})),
        backend_(memory_, streams_, emitter_, *lowering_, device),
        fsdp_(settings, plans, backend_) {}

  StepOutcome run();

 private:
  void run_program(const Program& program);
  void begin_program(const Program& program);
  void run_ops(std::size_t begin, std::size_t end);
  void run_op(const Op& op);
  void run_captured();
  void run_replay();
  void replay();
  void add_workspaces(const Op& op);
  void run_alloc(const Op& op);
  void run_hook(const Op& op);
  void run_collective(const Op& op);
  void run_wait(const Op& op);
  void run_step(StepOutcome& outcome);
  void run_process(StepOutcome& outcome);
  void stop(StepOutcome& outcome);
  /// Whether the last step would repeat the one before. Called as either begins.
  [[nodiscard]] bool repeats();
  [[nodiscard]] Bytes bytes_of(const AllocationSize& size) const;
  /// Behind the passes of a captured step: their gradients are the graph's.
  [[nodiscard]] bool keeps_gradients() const {
    return op_ >= passes_.end && graph_phase(settings_, request_.warm, step_) >= GraphPhase::capture;
  }
  /// Of the program that runs, behind the op that runs.
  [[nodiscard]] std::optional<Hook> next_hook() const;
  /// For a check that fails meanwhile: "mlp, rank 0, step 2, op 117 (kernel), host time 53120400 ns".
  [[nodiscard]] std::string where() const;

  const Workload& workload_;
  const Settings& settings_;
  const StepRequest& request_;
  Device& device_;
  RunRecorder recorder_;
  RankMesh mesh_;
  ParameterTable parameters_;
  StepStreams streams_;
  StepMemory memory_;
  OpEmitter emitter_;
  std::unique_ptr<StepLowering> lowering_;
  StepBackend backend_;
  FullyShard fsdp_;
  std::int32_t step_ = -1;
  Nanoseconds step_begin_;  // of the host
  CapturedOps passes_;      // of the program that runs
  /// What the capture's stream still has to make, in its first step; and how many allocs came behind the last hook.
  std::vector<LibraryWorkspace> workspaces_;
  std::size_t allocs_ = 0;
  Hook phase_ = Hook::zero_grad;
  std::uint32_t microbatches_ = 0;                                  // begun in this step
  std::map<std::uint8_t, std::vector<EventId>> ends_;               // of the program's own collectives, by user stream
  const Program* program_ = nullptr;                                // the one that runs, and …
  std::size_t op_ = 0;                                              // … its op
  std::map<const Program*, std::vector<AllocationName>> names_of_;  // of a run that is recorded; lookup only
  const std::vector<AllocationName>* names_ = nullptr;              // of the program that runs
  std::vector<SnapshotSegment> before_;  // as the last step but one began, where that is compared
  std::optional<EventId> enough_;        // of a step that repeats the one before: that one's end, and then …
  bool has_enough_ = false;              // … nothing more is issued
};

Bytes StepRunner::bytes_of(const AllocationSize& size) const {
  if (size.kind == AllocationSize::Kind::fixed) return size.bytes;
  if (settings_.offload) return 0;  // shards and what is made like them live on the host
  const Parameter& p = *parameters_[size.parameter].parameter;
  const bool local = size.kind == AllocationSize::Kind::local_shard;
  return (local ? local_shard_numel(p, mesh_.shard()) : padded_shard_numel(p, mesh_.shard())) * itemsize(p.dtype);
}

std::optional<Hook> StepRunner::next_hook() const {
  const auto behind = program_->ops.begin() + static_cast<std::ptrdiff_t>(op_) + 1;
  const auto next = std::find_if(behind, program_->ops.end(), [](const Op& op) { return op.kind == OpKind::hook; });
  return next == program_->ops.end() ? std::nullopt : std::optional(next->hook);
}

void StepRunner::run_alloc(const Op& op) {
  const Bytes bytes = bytes_of(op.size);
  if (bytes == 0) return;
  const StreamId on = streams_.user(op.user_stream);
  const AllocationName called = names_ != nullptr ? (*names_)[op_] : AllocationName{};
  const BlockHandle block = memory_.allocate(op, called, bytes, on);
  lowering_->allocated(op, block, on);
  memory_.hold(op, block);
}

void StepRunner::run_hook(const Op& op) {
  lowering_->on_hook(op.hook);
  switch (op.hook) {
    case Hook::zero_grad:
      if (!settings_.set_to_none && fsdp_.has_gradients()) lowering_->zero_gradients();
      if (!settings_.set_to_none || keeps_gradients()) break;
      fsdp_.zero_grad(op.unit.valid() ? std::vector{op.unit} : parameters_.zero_grad_order());
      break;
    case Hook::microbatch_begin:
      ++microbatches_;
      fsdp_.set_requires_gradient_sync(settings_.accumulate_with_sync || microbatches_ >= settings_.accumulate);
      break;
    case Hook::pre_forward:
      fsdp_.pre_forward(op.unit);
      break;
    case Hook::post_forward:
      fsdp_.post_forward(op.unit, next_hook() == Hook::outputs_cast);
      break;
    case Hook::outputs_cast:
      fsdp_.outputs_cast();
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
      if (settings_.optimizer_overlap == OptimizerOverlap::none) lowering_->optimizer_step(step_);
      if (settings_.optimizer_overlap == OptimizerOverlap::forward) fsdp_.step_optimizers();
      fsdp_.optimizer_stepped();
      break;
    case Hook::forward_begin:
    case Hook::forward_end:
    case Hook::backward_begin:
    case Hook::backward_end:
    case Hook::microbatch_end:
    case Hook::optimizer_begin:
    case Hook::optimizer_end:
      if (emitter_.capturing())
        emitter_.captured_hook(op.hook);
      else
        recorder_.phase(op.hook, step_);
      break;
  }
}

/// ProcessGroupNCCL::collective (2.11): with async_op the group's stream waits for the current one, then takes the
/// collective; without, the current stream takes it.
void StepRunner::run_collective(const Op& op) {
  const StreamId on = streams_.user(op.user_stream, workload_.process_groups[op.collective.group].name);
  if (on != kComputeStream) emitter_.wait_event(on, emitter_.record_event(kComputeStream));
  CollectiveWork work;
  work.kind = op.collective.kind;
  work.bytes = op.collective.bytes;
  work.label = op.label;
  emitter_.collective(on, work, streams_.process_group(op.collective.group), {});
  if (on != kComputeStream) ends_[op.user_stream].push_back(emitter_.record_event(on));  // WorkNCCL::ncclEndEvent_
}

/// A collective of an earlier program is waited for with all that came behind it.
void StepRunner::run_wait(const Op& op) {
  const std::vector<EventId>& ends = ends_[op.user_stream];
  const EventId end = op.collectives_behind < ends.size() ? ends[ends.size() - 1 - op.collectives_behind]
                                                          : emitter_.record_event(streams_.user(op.user_stream));
  emitter_.wait_event(kComputeStream, end);
}

/// The first step on another stream, where there was one before on the first. A workspace of a phase is made with it at
/// the latest, though the phase has fewer allocs here.
void StepRunner::add_workspaces(const Op& op) {
  const auto make = [this](auto due) {
    while (!workspaces_.empty() && due(workspaces_.front())) {
      static_cast<void>(memory_.allocate(workspaces_.front().bytes, MemoryCategory::workspaces, {}));
      workspaces_.erase(workspaces_.begin());
    }
  };
  if (op.kind == OpKind::alloc) {
    make([this](const LibraryWorkspace& one) { return one.phase == phase_ && one.allocs_before <= allocs_; });
    ++allocs_;
  }
  if (op.kind != OpKind::hook) return;
  const bool begins = op.hook == Hook::forward_begin || op.hook == Hook::backward_begin;
  if (begins || op.hook == Hook::forward_end) make([this](const LibraryWorkspace& one) { return one.phase == phase_; });
  if (op.hook == Hook::backward_end) make([](const LibraryWorkspace&) { return true; });
  if (!begins) return;
  phase_ = op.hook;
  allocs_ = 0;
}

void StepRunner::run_op(const Op& op) {
  emitter_.host_work(op.host_before);
  if (!workspaces_.empty()) add_workspaces(op);
  switch (op.kind) {
    case OpKind::alloc:
      run_alloc(op);
      break;
    case OpKind::free:
      memory_.free(op);
      break;
    case OpKind::hook:
      run_hook(op);
      break;
    case OpKind::synchronize:  // a program that can be captured does without
      if (!emitter_.capturing()) device_.synchronize_stream(kComputeStream);
      break;
    case OpKind::kernel:
      lowering_->kernel(op, streams_.user(op.user_stream));
      break;
    case OpKind::copy:
      emitter_.copy(streams_.user(op.user_stream), op.copy, {});
      break;
    case OpKind::collective:
      run_collective(op);
      break;
    case OpKind::wait_stream:
      run_wait(op);
      break;
  }
}

void StepRunner::run_ops(std::size_t begin, std::size_t end) {
  for (op_ = begin; op_ < end; ++op_) {
    // At hooks: asked of every op it would cost more than it saves.
    if (enough_ && program_->ops[op_].kind == OpKind::hook && device_.event_complete(*enough_)) {
      has_enough_ = true;
      return;
    }
    run_op(program_->ops[op_]);
  }
}

void StepRunner::replay() {
  emitter_.launch([this](Hook hook) { recorder_.phase(hook, step_); });
}

/// torch.cuda.graph begins on a synchronised device. A capture runs nothing: its first replay does.
void StepRunner::run_captured() {
  run_ops(0, passes_.begin);
  device_.synchronize();
  memory_.allocate_on(streams_.capture());
  memory_.begin_capture();
  emitter_.begin_capture(!request_.warm);  // of a run that begins with it the host's time is nobody's
  run_ops(passes_.begin, passes_.end);
  emitter_.end_capture();
  memory_.keep_inputs(*program_, passes_.begin);
  memory_.end_capture();
  memory_.allocate_on(kComputeStream);
  replay();
  run_ops(passes_.end, program_->ops.size());
}

/// New inputs are copied into those of the capture, and gradients stay: before the passes nothing is allocated, and
/// zero_grad() is called only where it keeps them. What earlier steps left behind their passes is freed as ever.
void StepRunner::run_replay() {
  bool zeroes = false;
  for (op_ = 0; op_ < passes_.begin; ++op_) {
    const Op& op = program_->ops[op_];
    const bool in_zero_grad = zeroes;  // up to its end, where microbatch_begin is
    if (op.kind == OpKind::hook && op.hook == Hook::zero_grad) zeroes = true;
    if (op.kind == OpKind::hook && op.hook == Hook::microbatch_begin) zeroes = false;
    const bool zeroes_here = op.kind == OpKind::hook && op.hook == Hook::zero_grad && !settings_.set_to_none;
    if ((op.kind != OpKind::alloc && op.kind != OpKind::hook) || zeroes_here)
      run_op(op);
    else if (!in_zero_grad)
      emitter_.host_work(op.host_before);
  }
  replay();
  run_ops(passes_.end, program_->ops.size());
}

void StepRunner::run_program(const Program& program) {
  begin_program(program);
  passes_ = captured_ops(program);
  const std::size_t ops = program.ops.size();
  switch (graph_phase(settings_, request_.warm, step_)) {
    case GraphPhase::eager:
      run_ops(0, ops);
      break;
    case GraphPhase::warm_up:
      if (step_ > 0 && step_ == static_cast<std::int32_t>(settings_.cuda_graph->eager_steps))
        workspaces_ = library_workspaces(memory_.program_of(0));
      run_ops(0, passes_.begin);
      memory_.allocate_on(streams_.capture());
      run_ops(passes_.begin, ops);
      memory_.allocate_on(kComputeStream);
      break;
    case GraphPhase::capture:
      run_captured();
      break;
    case GraphPhase::replay:
      run_replay();
      break;
  }
  program_ = nullptr;
}

void StepRunner::begin_program(const Program& program) {
  microbatches_ = 0;
  memory_.begin_program(step_);
  lowering_->begin_program(step_, program);
  ends_.clear();
  program_ = &program;
  if (recorder_.records_blocks()) {
    const auto [place, is_new] = names_of_.try_emplace(&program);
    if (is_new) place->second = allocation_names(workload_, program, recorder_.labels());
    names_ = &place->second;
  }
}

std::string StepRunner::where() const {
  std::string out = fmt::format("{}, rank {}, {}", workload_.name, request_.rank,
                                step_ < 0 ? std::string("setup") : fmt::format("step {}", step_));
  if (program_ != nullptr) out += fmt::format(", op {} ({})", op_, name(program_->ops[op_].kind));
  return out + fmt::format(", host time {} ns", device_.host_now().count);
}

void StepRunner::run_step(StepOutcome& outcome) {
  StepOutcome::Step step;
  if (repeats()) enough_ = device_.record_event(kComputeStream);
  memory_.reset_peaks();
  step.host_begin = device_.host_now();
  step_begin_ = recorder_.now();
  run_program(memory_.program_of(step_));
  step.host_end = device_.host_now();
  step.last_compute_op = emitter_.last_compute_op();
  step.peaks = memory_.peaks();
  step.num_alloc_retries = memory_.statistics().num_alloc_retries;
  if (has_enough_) {  // the rest is as in the step before
    const StepOutcome::Step& before = outcome.steps.back();
    step.peaks = before.peaks;
    step.num_alloc_retries = 2 * before.num_alloc_retries - outcome.steps[outcome.steps.size() - 2].num_alloc_retries;
  }
  outcome.steps.push_back(step);
  recorder_.step(step_, step_begin_, recorder_.now(), step.peaks, memory_.statistics());
  if (step_ < request_.synchronized) device_.synchronize();
}

bool StepRunner::repeats() {
  constexpr std::int32_t kFirst = 2;  // earlier ones begin what later ones find
  if (!request_.until_repeated || settings_.cuda_graph || request_.steps < kFirst + 2) return false;
  if (step_ == request_.steps - 2) before_ = memory_.snapshot();
  return step_ == request_.steps - 1 && &memory_.program_of(step_) == &memory_.program_of(step_ - 1) &&
         begins_alike(memory_.snapshot(), before_);
}

/// To its end, or until memory is out.
void StepRunner::run_process(StepOutcome& outcome) {
  // A process of foreshard's own is not the recorded one, and another allocator configuration would have placed the
  // blocks another way: either asks for them anew.
  const bool as_recorded =
      request_.lowering == Lowering::pytorch && settings_.alloc_conf == workload_.settings.alloc_conf;
  try {
    memory_.adopt_older(as_recorded, outcome.memory);
    memory_.begin_recording();
    if (request_.setup) run_program(workload_.setup);
    if (request_.setup) device_.synchronize();
    for (step_ = 0; step_ < request_.steps; ++step_) run_step(outcome);
  } catch (const AllocationFailed& failed) {
    outcome.out_of_memory = failed.report;
    outcome.out_of_memory_step = step_;
    outcome.out_of_memory_peaks = memory_.peaks();
  }
  device_.synchronize();
  if (request_.steps == 0) outcome.stopped_peaks = memory_.peaks();
}

/// Its host will never go on: the step that it stands in is kept up to there.
void StepRunner::stop(StepOutcome& outcome) {
  const bool in_step = step_ < request_.steps && outcome.steps.size() <= static_cast<std::size_t>(std::max(0, step_));
  if (!in_step) return;
  outcome.stopped_step = step_;
  outcome.stopped_peaks = memory_.peaks();
  if (step_ >= 0)
    recorder_.stopped_step(step_, step_begin_, recorder_.now(), outcome.stopped_peaks, memory_.statistics());
}

StepOutcome StepRunner::run() {
  StepOutcome outcome;
  const CheckContext context([](const void* self) { return static_cast<const StepRunner*>(self)->where(); }, this);
  try {
    run_process(outcome);
  } catch (const HostStopped&) {
    stop(outcome);
  }
  outcome.ops = emitter_.ops();
  outcome.graph_pool = memory_.graph_pool();
  outcome.memory.segments = memory_.take_segments();
  outcome.sections_missing = lowering_->sections_missing();
  if (request_.record) recorder_.finish(memory_.snapshot());
  return outcome;
}

}  // namespace

Result<StepOutcome> run_steps(const Workload& workload, const Settings& wanted, const StepRequest& request,
                              Device& device, DeviceMemory& memory, Run& run) {
  const Settings settings = carried_out(request.lowering, wanted);
  const auto plans = plan_units(settings, workload.units, workload.sm_count);
  FORESHARD_TRY(plans);
  const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
  FORESHARD_TRY(config);
  if (workload.steps.empty()) return fail(ErrorKind::input, "the workload has no step");
  if (settings.cuda_graph && !device.can_launch_graphs())
    return fail(ErrorKind::usage, "this device launches no CUDA graphs", "cuda_graph", "take --cuda-graph none");
  if (const std::vector<std::string> own = of_own_program(settings);
      !own.empty() && !issues_own_program(workload, settings, request.lowering))
    return fail(ErrorKind::usage, "PyTorch's program, which is planned here, has no such choice", own.front(),
                request.lowering == Lowering::foreshard
                    ? "foreshard's own program is planned of sources that say what each kernel computes: plan a model"
                    : "plan a model with --lowering foreshard, or leave it out");
  StepRunner runner(workload, settings, *plans, *config, request, device, memory, run);
  return runner.run();
}

}  // namespace foreshard
