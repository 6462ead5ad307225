#include "gpu/cuda/execution.hpp"

#include <fmt/core.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <mutex>

#include "core/base/units.hpp"
#include "core/run/steady_step.hpp"
#include "core/settings/carried_out.hpp"
#include "core/step/graph_schedule.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/value_reader.hpp"

namespace foreshard::gpu {
namespace {

constexpr Milliseconds kGroupTimeout{180'000};  // NCCL's first communicator of several nodes takes a minute at worst

/// Lets the session's thread abort the groups for as long as they live.
class AbortLink {
 public:
  AbortLink(Session& session, Groups& groups) : link_(std::make_shared<Link>()) {
    link_->groups = &groups;
    session.on_abort([link = link_](const RunFailure&) {
      const std::lock_guard lock(link->mutex);
      if (link->groups != nullptr) link->groups->abort();
    });
  }
  ~AbortLink() {
    const std::lock_guard lock(link_->mutex);
    link_->groups = nullptr;
  }
  AbortLink(const AbortLink&) = delete;
  AbortLink& operator=(const AbortLink&) = delete;

 private:
  struct Link {
    std::mutex mutex;
    Groups* groups = nullptr;
  };
  std::shared_ptr<Link> link_;
};

/// What the passes share.
class Runner {
 public:
  Runner(const Workload& workload, const Settings& settings, const ExecuteRequest& request, Session& session,
         Executor& executor, Groups& groups)
      : workload_(workload),
        settings_(settings),
        request_(request),
        session_(session),
        executor_(executor),
        groups_(groups),
        before_replay_(steps_before_replay(settings)) {}

  Result<void> warm_up();
  Result<void> time(Execution& out);
  Result<void> record(Execution& out, Run& run);

 private:
  struct Pass {
    StepOutcome outcome;
    std::map<OpId, Nanoseconds> marked;
    Bytes fixed = 0;  ///< outside of the caching allocator
    std::string caveat;
  };
  struct PassRequest {
    StepRequest steps;
    Timing timing = Timing::issue;
    std::vector<OpId> marks = {};
    ValueReader* reader = nullptr;
  };
  Result<Pass> pass(PassRequest request, Run& run);
  [[nodiscard]] StepRequest steps(std::int32_t count) const;
  [[nodiscard]] std::vector<OpId> step_ends(std::int32_t count) const;
  void say(std::string_view what) {
    if (request_.progress) request_.progress(what);
    session_.report(what, kGroupTimeout);
  }

  const Workload& workload_;
  const Settings& settings_;
  const ExecuteRequest& request_;
  Session& session_;
  Executor& executor_;
  Groups& groups_;
  std::int32_t before_replay_;   // steps of each pass that a CUDA graph needs first
  std::vector<OpId> warm_ends_;  // last op on the compute stream, by step
};

StepRequest Runner::steps(std::int32_t count) const {
  StepRequest steps;
  steps.steps = count;
  steps.record = false;
  steps.synchronized = 1;
  steps.rank = session_.environment().rank;
  steps.lowering = Lowering::foreshard;
  steps.learning_rate = request_.learning_rate;
  return steps;
}

Error out_of_memory_error(const StepOutcome& outcome) {
  const OutOfMemory& oom = *outcome.out_of_memory;
  const std::string step =
      outcome.out_of_memory_step < 0 ? "setup" : fmt::format("step {}", outcome.out_of_memory_step);
  return {ErrorKind::out_of_memory,
          fmt::format("out of memory in {}: tried to allocate {} with {} free; {} allocated, {} reserved", step,
                      format_bytes(oom.tried), format_bytes(oom.device_free), format_bytes(oom.allocated),
                      format_bytes(oom.reserved)),
          {},
          "foreshard plan with the same options reports what would fit"};
}

Result<Runner::Pass> Runner::pass(PassRequest wanted, Run& run) {
  return guarded([&]() -> Result<Pass> {
    CudaMemoryOptions memory_options;
    memory_options.groups = &groups_;
    memory_options.limit = request_.memory_limit;
    const auto memory = require(CudaMemory::create(memory_options));
    CudaDeviceOptions options;
    options.timing = wanted.timing;
    options.pace_host = request_.pace_host;
    options.on_op = [this](LabelId label) { session_.report(workload_.labels.text(label)); };
    options.name_of = [this](LabelId label) { return workload_.labels.text(label); };
    options.healthy = [this]() -> Result<void> {
      if (const auto failure = session_.failure()) return tl::unexpected<Error>(failure->error());
      return groups_.health();
    };
    options.make_group = [this](const CommunicatorOptions& group) {
      session_.report("making the group " + group.name, kGroupTimeout);
      return groups_.group(group);
    };
    // The stand-ins of operands do not come out of the limit that the allocator has.
    const auto staging = require(CudaMemory::create({.groups = &groups_}));
    const auto device = require(CudaDevice::create(executor_, *staging, options));
    device->clock().mark(wanted.marks);
    if (wanted.reader != nullptr) {
      wanted.reader->attach(device->handle(kComputeStream));
      wanted.steps.observer = wanted.reader;
    }
    auto outcome = run_steps(workload_, settings_, wanted.steps, *device, *memory, run);
    FORESHARD_TRY(outcome);
    if (outcome->out_of_memory) return tl::unexpected<Error>(out_of_memory_error(*outcome));
    return Pass{std::move(*outcome), device->clock().marked(), device->staging_bytes() + device->graph_bytes(),
                device->clock().caveat()};
  });
}

Result<void> Runner::warm_up() {
  say("warming up");
  Run ignored;
  constexpr std::int32_t kLeast = 3;  // two steps behind the first: step_ends()
  auto warm = pass({.steps = steps(std::max(request_.warmup, kLeast) + before_replay_)}, ignored);
  FORESHARD_TRY(warm);
  for (const StepOutcome::Step& step : warm->outcome.steps) {
    if (!step.last_compute_op) return {};  // no kernels: steps have no device time
    warm_ends_.push_back(*step.last_compute_op);
  }
  return session_.bootstrap().barrier("warmed up");
}

/// Steps from the second on issue the same ops, captured and replayed or not, so the last op of each is known before it
/// is issued. (With an optimizer that runs beside it the first step's ends before its last states are made.)
std::vector<OpId> Runner::step_ends(std::int32_t count) const {
  std::vector<OpId> ends;
  if (warm_ends_.size() < 3) return ends;
  const std::uint32_t last = warm_ends_.back().value;
  const std::uint32_t period = last - warm_ends_[warm_ends_.size() - 2].value;
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(count); ++k) {
    const auto known = static_cast<std::uint32_t>(warm_ends_.size());
    ends.push_back(k < known ? warm_ends_[k] : OpId{last + (k + 1 - known) * period});
  }
  return ends;
}

Result<void> Runner::time(Execution& out) {
  say("timing");
  const std::int32_t skip = std::max(request_.skip, 1) + before_replay_;
  const std::int32_t count = request_.skip + before_replay_ + request_.steps;
  const std::vector<OpId> ends = step_ends(count);
  ValueReader reader(request_.gradients);
  Run ignored;
  auto timed = pass({.steps = steps(count), .marks = ends, .reader = out.computed ? &reader : nullptr}, ignored);
  FORESHARD_TRY(timed);
  out.fixed_bytes = std::max(out.fixed_bytes, timed->fixed);
  out.timed_memory = std::move(timed->outcome.memory);
  out.graph_pool = timed->outcome.graph_pool;
  out.measured.losses = reader.losses();
  const auto& steps_done = timed->outcome.steps;
  for (std::size_t k = 0; k < steps_done.size(); ++k) {
    out.measured.step_peaks.push_back(steps_done[k].peaks);
    if (k < static_cast<std::size_t>(skip)) continue;
    out.measured.host_issue_ms.push_back((steps_done[k].host_end - steps_done[k].host_begin).ms());
    if (ends.empty()) continue;
    if (steps_done[k].last_compute_op != ends[k] || timed->marked.count(ends[k]) == 0) {
      out.caveats.push_back(fmt::format("step {} issued other ops than the steps before it: it is not timed", k));
      continue;
    }
    out.measured.step_ms.push_back((timed->marked.at(ends[k]) - timed->marked.at(ends[k - 1])).ms());
  }
  out.measured.peaks = steps_done.back().peaks;
  out.measured.num_alloc_retries = steps_done.back().num_alloc_retries;
  return session_.bootstrap().barrier("timed");
}

Result<void> Runner::record(Execution& out, Run& run) {
  if (request_.recorded <= 0) return {};
  say("recording");
  StepRequest request = steps(request_.recorded + before_replay_);
  request.record = true;
  auto recorded = pass({.steps = request, .timing = Timing::activities}, run);
  FORESHARD_TRY(recorded);
  out.recorded_memory = std::move(recorded->outcome.memory);
  if (!recorded->caveat.empty()) out.caveats.push_back(recorded->caveat);
  const StepRecord* step = timed_step(run);
  const StepRecord* before = step == nullptr ? nullptr : step_before(run, *step);
  if (before != nullptr && step->device_end) out.recorded_step_ms = (*step->device_end - *before->device_end).ms();
  return session_.bootstrap().barrier("recorded");
}

std::string version_text(int number) {  // CUDA's coding: 13000 is 13.0
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

Result<void> describe(Execution& out, Run& run, const Workload& workload, const Settings& settings) {
  cudaDeviceProp properties{};
  int device = 0;
  FORESHARD_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
  FORESHARD_TRY(check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  int nccl = 0;
  static_cast<void>(ncclGetVersion(&nccl));
  int driver = 0;
  FORESHARD_TRY(check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  out.measured.gpu = properties.name;
  out.measured.host = host.data();
  out.nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl % 10000 / 100, nccl % 100);
  out.driver = version_text(driver);
  run.info.kind = RunKind::executed;
  run.info.name = workload.name;
  run.info.gpu = properties.name;
  run.info.nccl = out.nccl;
  run.info.sm_count = static_cast<std::uint32_t>(properties.multiProcessorCount);
  run.settings = settings;
  run.units = workload.units;
  run.labels = workload.labels;
  return {};
}

}  // namespace

Result<void> use_gpu(const Environment& environment) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    Error error = check(code == cudaSuccess ? cudaErrorNoDevice : code, "cudaGetDeviceCount").error();
    error.kind = ErrorKind::skipped;
    error.hint = "run needs an NVIDIA GPU and its driver (CUDA 13: 580 or newer); plan needs neither";
    return tl::unexpected<Error>(error);
  }
  if (environment.local_rank >= static_cast<std::uint32_t>(count))
    return fail(ErrorKind::usage, fmt::format("{} ranks on a host with {} GPUs", environment.local_ranks, count), {},
                "one rank a GPU: --gpus is the number of GPUs a node");
  return check(cudaSetDevice(static_cast<int>(environment.local_rank)), "cudaSetDevice");
}

Result<Execution> execute(const Workload& workload, const Settings& wanted, const ExecuteRequest& request,
                          Session& session, Run& run) {
  const Settings settings = carried_out(Lowering::foreshard, wanted);
  Execution out;
  out.measured.rank = session.environment().rank;
  out.computed = computes(workload);
  out.paced = request.pace_host;
  FORESHARD_TRY(describe(out, run, workload, settings));
  auto executor = Executor::create();
  FORESHARD_TRY(executor);
  Groups groups(session.bootstrap(), transports_of(settings), settings.cuda_graph.has_value());
  const AbortLink link(session, groups);
  Runner runner(workload, settings, request, session, **executor, groups);
  FORESHARD_TRY(runner.warm_up());
  FORESHARD_TRY(runner.time(out));
  FORESHARD_TRY(runner.record(out, run));
  out.paths = groups.paths();
  out.pools = groups.counters();
  out.fixed_bytes += (*executor)->fixed_bytes() + groups.fixed_bytes();
  if (!groups.heap_caveat().empty()) out.caveats.push_back("no symmetric memory: " + groups.heap_caveat());
  run.measured = Measured{out.measured.step_ms, out.measured.host_issue_ms, workload.cycle};
  return out;
}

}  // namespace foreshard::gpu
