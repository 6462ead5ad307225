#include "gpu/probe/kernels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/adapt/adapt.hpp"
#include "core/base/median.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/step/step_runner.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/device_failure.hpp"
#include "gpu/probe/serial_device.hpp"
#include "gpu/probe/sm_holder.hpp"

namespace foreshard::gpu {
namespace {

/// Two layers of a model: their kernels repeat in every further one. Where power counts there are more, so that the
/// head has no larger part in the step than it has in whole models.
constexpr std::uint32_t kLayers = 2;
/// The first step allocates and asks libraries for plans, the second runs as all later ones.
constexpr std::int32_t kWarmSteps = 2;
constexpr std::int32_t kTimedSteps = 2;
/// Before the timed steps a program runs for so long: power reaches its cap, and the clock what that leaves, within
/// some 30 ms of GEMMs (2 x H200, Llama-8B with 4,096 tokens: GEMMs take 12 % longer from then on).
constexpr double kSustained = 0.6e6;  // us
constexpr std::int32_t kMaxSustained = 100;
/// Programs of fewer operations a step never reach it.
constexpr double kLeastSustained = 3e3;  // us
/// No GEMMs in a step are faster (H200, TFLOP/s).
constexpr double kMatrixRate = 650;
constexpr double kVectorRate = 50;
/// CUPTI's clock is good to some tens of nanoseconds; shorter kernels say nothing.
constexpr double kLeastUs = 0.5;

struct ProbeProgram {
  const char* preset;
  std::uint64_t dim;  ///< 0: the preset's
  std::uint32_t batch;
  std::uint32_t seq;
  std::uint32_t layers;
  bool narrow;  ///< bfloat16 parameters, float32 sums where `fused`
  Kernels kernels;
  Optimizer optimizer;
  Float8 float8 = Float8::none;
  bool float8_all_gather = false;  ///< where there is more than one rank
};

constexpr auto kEager = Kernels::eager;
constexpr auto kFused = Kernels::fused;
/// Widths and lengths so far apart that a shape in between has a neighbour within an octave in each extent; every
/// family of kernels at several sizes; each optimizer.
constexpr std::array<ProbeProgram, 26> kPrograms{{
    {"llama-tiny", 512, 1, 256, kLayers, true, kEager, Optimizer::adam},
    {"llama-tiny", 0, 1, 512, kLayers, true, kEager, Optimizer::adam_fused},
    {"llama-tiny", 0, 2, 1024, kLayers, true, kEager, Optimizer::adam},
    {"llama-tiny", 0, 4, 2048, kLayers, true, kFused, Optimizer::adam_fused},
    {"llama-1b", 0, 1, 512, kLayers, true, kFused, Optimizer::adam},
    {"llama-1b", 0, 1, 2048, 8, true, kEager, Optimizer::adam_fused},
    {"llama-1b", 0, 2, 2048, 8, true, kFused, Optimizer::sgd},
    {"llama-1b", 0, 1, 8192, kLayers, true, kEager, Optimizer::adam},
    {"llama-8b", 0, 1, 256, kLayers, true, kFused, Optimizer::adam_fused},
    {"llama-8b", 0, 1, 512, kLayers, true, kFused, Optimizer::adam},
    {"llama-8b", 0, 1, 1024, kLayers, true, kEager, Optimizer::adam_fused},
    {"llama-8b", 0, 1, 2048, 6, true, kFused, Optimizer::adam},
    {"llama-8b", 0, 1, 4096, 6, true, kFused, Optimizer::adam_fused},
    {"llama-tiny", 0, 1, 512, kLayers, true, kFused, Optimizer::adam_fused, Float8::tensorwise},
    {"llama-tiny", 0, 1, 512, kLayers, true, kFused, Optimizer::adam_fused, Float8::tensorwise, true},
    {"llama-8b", 0, 1, 512, kLayers, true, kFused, Optimizer::adam_fused, Float8::tensorwise},
    {"llama-8b", 0, 1, 512, kLayers, true, kFused, Optimizer::adam_fused, Float8::tensorwise, true},
    {"llama-8b", 0, 1, 4096, 6, true, kFused, Optimizer::adam_fused, Float8::tensorwise},
    {"mlp", 512, 64, 1, kLayers, false, kEager, Optimizer::adam},
    {"mlp", 2048, 4, 1, kLayers, false, kEager, Optimizer::adam_fused},
    {"mlp", 4096, 4, 1, kLayers, false, kEager, Optimizer::sgd},
    {"mlp", 8192, 8, 1, kLayers, false, kEager, Optimizer::adam},
    {"mlp", 4096, 2048, 1, kLayers, false, kEager, Optimizer::adam_single},
    {"mlp", 4096, 2048, 1, kLayers, true, kEager, Optimizer::adam},
    {"torch-transformer", 0, 8, 128, kLayers, false, kEager, Optimizer::adam},
    {"torch-transformer", 1024, 4, 512, kLayers, false, kEager, Optimizer::adam_fused},
}};

Settings settings_of(const ProbeProgram& program, std::uint32_t ranks) {
  Settings settings;
  settings.gpus = ranks;
  settings.batch = program.batch;
  settings.seq = program.seq;
  if (program.narrow) settings.param_dtype = DType::bfloat16;
  if (program.narrow && program.kernels == Kernels::fused) settings.reduce_dtype = DType::float32;
  settings.kernels = program.kernels;
  settings.float8 = program.float8;
  settings.float8_all_gather = program.float8_all_gather && ranks > 1;
  settings.optimizer = program.optimizer;
  return settings;
}

TargetGpu this_gpu() {
  cudaDeviceProp properties{};
  int device = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {static_cast<std::uint32_t>(properties.multiProcessorCount),
          static_cast<std::uint32_t>(properties.major * 10 + properties.minor)};
}

Result<Workload> workload_of(const ProbeProgram& program, const Settings& settings) {
  PresetOverrides overrides;
  overrides.layers = program.layers;
  if (program.dim > 0) overrides.dim = program.dim;
  const auto model = preset(program.preset, overrides);
  FORESHARD_TRY(model);
  auto workload = generate(*model, settings, HostCosts{}, this_gpu(), true);
  if (!workload) return workload;
  auto adapted = adapt(*workload, settings);
  FORESHARD_TRY(adapted);
  return std::move(adapted->workload);
}

/// The ops of some steps.
struct OpRange {
  OpId after;
  OpId last;
  [[nodiscard]] bool has(OpId op) const { return op > after && op <= last; }
};

/// What a program does in which of its steps: warms up, runs without collectives until power is what it
/// stays, is timed alone, and is timed once while SMs are held by idle CTAs and once while by CTAs that stream memory.
class Stages final : public ValueObserver {
 public:
  Stages(std::int32_t sustained, SerialDevice& serial, CudaDevice& device, SmHolder& holder)
      : timed_(kWarmSteps + sustained), serial_(serial), device_(device), holder_(holder) {}

  [[nodiscard]] std::int32_t steps() const { return end_of_isolated() + 5; }
  void loss(std::int32_t step, Address) override {
    using Load = SmHolder::Load;
    const cudaStream_t stream = device_.handle(kComputeStream);
    if (step == kWarmSteps - 1) serial_.drop_collectives();
    // In the middle of a step, so that the next one finds them held, and the one behind it frees them.
    if (step == end_of_isolated()) holder_.hold(stream, kHeldSms, Load::none);
    if (step == end_of_isolated() + 2) {
      holder_.release(stream, Load::none);
      holder_.hold(stream, kHeldSms, Load::memory);
    }
    if (step == end_of_isolated() + 4) holder_.release(stream, Load::memory);
  }
  void gradients(std::int32_t, std::span<const ShardedGradient>) override {}
  /// False where steps are missing.
  bool finish(const std::vector<StepOutcome::Step>& steps) {
    if (steps.size() < static_cast<std::size_t>(this->steps())) return false;
    const auto range = [&](std::int32_t first, std::int32_t end) {
      return OpRange{steps[static_cast<std::size_t>(first - 1)].last_compute_op.value_or(OpId{0}),
                     steps[static_cast<std::size_t>(end - 1)].last_compute_op.value_or(OpId{0})};
    };
    isolated = range(timed_, end_of_isolated());
    held = range(end_of_isolated() + 1, end_of_isolated() + 2);
    streamed = range(end_of_isolated() + 3, end_of_isolated() + 4);
    return true;
  }

  OpRange isolated;
  OpRange held;
  OpRange streamed;

 private:
  [[nodiscard]] std::int32_t end_of_isolated() const { return timed_ + kTimedSteps; }

  std::int32_t timed_;
  SerialDevice& serial_;
  CudaDevice& device_;
  SmHolder& holder_;
};

/// Steps that take kSustained, where a step is long enough to matter; the same number on every rank.
std::int32_t sustained_steps(const Workload& workload) {
  double us = 0;
  for (const Op& op : workload.steps.back().ops) {
    const KernelMath& math = op.kernel.math;
    if (op.kind != OpKind::kernel || math.kind == KernelMath::Kind::bytes) continue;
    const double passes = math.kind == KernelMath::Kind::gemm                ? 1
                          : math.kind == KernelMath::Kind::attention_forward ? 2
                                                                             : 5;
    const double flop = 2 * passes * static_cast<double>(math.m) * static_cast<double>(math.n) *
                        static_cast<double>(math.k) * math.batch * (math.causal ? 0.5 : 1);
    us += flop / 1e6 / (itemsize(math.dtype) >= 4 ? kVectorRate : kMatrixRate);
  }
  if (us < kLeastSustained) return 0;
  return std::min(kMaxSustained, static_cast<std::int32_t>(kSustained / us));
}

/// The kernels of the timed steps: one a name, shape and size, the median of its times.
void add_medians(const std::vector<NotedKernel>& noted, std::span<const OpTiming> timings, const Stages& stages,
                 const Labels& labels, std::vector<ProbedKernel>& out) {
  const auto key = [](const NotedKernel& kernel) {
    const KernelMath& math = kernel.math;
    return std::tuple(kernel.label.value, math.kind, math.dtype, math.access, math.causal, math.batch, math.m, math.n,
                      math.k, kernel.bytes);
  };
  struct Times {
    const NotedKernel* first = nullptr;
    std::vector<double> isolated;
    std::vector<double> held;
    std::vector<double> streamed;
  };
  std::map<decltype(key(noted.front())), Times> groups;
  for (const NotedKernel& kernel : noted) {
    const bool isolated = stages.isolated.has(kernel.op);
    const bool held = stages.held.has(kernel.op);
    if (labels.text(kernel.label).empty() || (!isolated && !held && !stages.streamed.has(kernel.op))) continue;
    const OpTiming& timing = timings[kernel.op.value];
    const double us = (timing.end - timing.start).us();
    if (us < kLeastUs) continue;
    Times& times = groups[key(kernel)];
    if (times.first == nullptr) times.first = &kernel;
    (isolated ? times.isolated : held ? times.held : times.streamed).push_back(us);
  }
  for (auto& [ignored, times] : groups) {
    if (times.isolated.empty()) continue;
    const NotedKernel& kernel = *times.first;
    out.push_back({labels.text(kernel.label), kernel.math, kernel.bytes, median(times.isolated), median(times.held),
                   median(times.streamed)});
  }
}

/// Gaps between neighbours of which the second was queued well before; longer ones than any launch takes are something
/// else's.
class Gaps {
 public:
  void add(const std::vector<NotedKernel>& noted, std::span<const OpTiming> timings, const OpRange& timed) {
    for (std::size_t i = 1; i < noted.size(); ++i) {
      if (!timed.has(noted[i - 1].op) || !timed.has(noted[i].op) || noted[i].op.value != noted[i - 1].op.value + 1)
        continue;
      const OpTiming& first = timings[noted[i - 1].op.value];
      const OpTiming& second = timings[noted[i].op.value];
      const double gap = (second.start - first.end).us();
      if (second.issue + kQueued > first.end || gap <= 0 || gap > kMaxGap) continue;
      Sum& sum = first.end - first.start < kLongKernel ? short_ : long_;
      sum.us += gap;
      ++sum.count;
    }
  }
  [[nodiscard]] double after_short() const { return short_.mean(); }
  [[nodiscard]] double after_long() const { return long_.mean(); }

 private:
  /// A launch takes up to 10 us to come to the GPU under CUPTI: what was issued later lengthens the gap.
  static constexpr Nanoseconds kQueued{20'000};
  static constexpr double kMaxGap = 5;
  struct Sum {
    double us = 0;
    std::uint64_t count = 0;
    [[nodiscard]] double mean() const { return count == 0 ? 0 : us / static_cast<double>(count); }
  };
  Sum short_;
  Sum long_;
};

/// A device of its own for one program.
struct Rig {
  Rig(Executor& executor, Groups& groups, Timing timing)
      : memory(require(CudaMemory::create({.groups = &groups}))),
        staging(require(CudaMemory::create({.groups = &groups}))),
        device(require(CudaDevice::create(
            executor, *staging,
            {.timing = timing, .make_group = [&groups](const auto& options) { return groups.group(options); }}))) {}
  std::unique_ptr<CudaMemory> memory;
  std::unique_ptr<CudaMemory> staging;
  std::unique_ptr<CudaDevice> device;
};

StepRequest request_of(std::int32_t steps, std::uint32_t rank) {
  StepRequest request;
  request.steps = steps;
  request.record = false;
  request.rank = rank;
  request.lowering = Lowering::foreshard;
  return request;
}

}  // namespace

double probe_host_step(Executor& executor, Groups& groups, HostBoundStep step, std::uint32_t rank,
                       std::uint32_t ranks) {
  constexpr std::size_t kSettled = 3;  // before, memory grows: the optimizer's state is there from the second step on
  constexpr std::size_t kSteps = 11;
  const Workload workload = require(host_bound_step(step, HostCosts{}, this_gpu(), ranks));
  StepRequest request = request_of(kSteps, rank);
  request.synchronized = kSteps;
  Rig rig(executor, groups, Timing::issue);
  Run ignored;
  ignored.labels = workload.labels;
  const StepOutcome outcome =
      require(run_steps(workload, workload.settings, request, *rig.device, *rig.memory, ignored));
  std::vector<double> us;
  for (std::size_t i = kSettled; i < outcome.steps.size(); ++i)
    us.push_back((outcome.steps[i].host_end - outcome.steps[i].host_begin).us());
  return median(std::move(us));
}

ProbedKernels probe_kernels(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks,
                            std::span<const Address> sources, const std::function<void(std::string_view)>& say) {
  ProbedKernels out;
  Gaps gaps;
  SmHolder holder(sources);
  for (const ProbeProgram& program : kPrograms) {
    const Settings settings = settings_of(program, ranks);
    const std::string name =
        fmt::format("{}{} batch {} seq {}{}", program.preset,
                    program.dim > 0 ? fmt::format(" dim {}", program.dim) : "", program.batch, program.seq,
                    program.float8 == Float8::none ? ""
                    : settings.float8_all_gather   ? " in float8, gathered so"
                                                   : " in float8");
    say("kernels of " + name);
    const auto workload = workload_of(program, settings);
    if (!workload) {
      out.notes.push_back(name + ": " + workload.error().what);
      continue;
    }
    Rig rig(executor, groups, Timing::activities);
    SerialDevice serial(*rig.device);
    Stages stages(sustained_steps(*workload), serial, *rig.device, holder);
    StepRequest request = request_of(stages.steps(), rank);
    request.observer = &stages;
    Run ignored;
    ignored.labels = workload->labels;
    const StepOutcome outcome = require(run_steps(*workload, settings, request, serial, *rig.memory, ignored));
    if (outcome.out_of_memory || !stages.finish(outcome.steps)) {
      out.notes.push_back(name + " does not fit into this GPU's memory: its kernels are not timed");
      continue;
    }
    add_medians(serial.kernels(), rig.device->timings(), stages, workload->labels, out.kernels);
    if (const std::string caveat = rig.device->clock().caveat(); !caveat.empty())
      out.notes.push_back(name + ": " + caveat);
    gaps.add(serial.kernels(), rig.device->timings(), stages.isolated);
  }
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  out.streamed_bandwidth = holder.bandwidth();
  out.gap = gaps.after_short();
  out.long_gap = gaps.after_long();
  return out;
}

}  // namespace foreshard::gpu
