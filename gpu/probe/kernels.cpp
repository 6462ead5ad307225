#include "gpu/probe/kernels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/step/step_runner.hpp"
#include "core/workload/adapt.hpp"
#include "core/workload/model/generate.hpp"
#include "core/workload/model/presets.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/failure.hpp"
#include "gpu/probe/host_program.hpp"
#include "gpu/probe/serial_device.hpp"

namespace foreshard::gpu {
namespace {

/// Two layers of a model: their kernels repeat in every further one.
constexpr std::uint32_t kLayers = 2;
/// The first step allocates and asks libraries for plans, the second runs as all later ones: two of those are timed.
constexpr std::int32_t kSteps = 4;
constexpr std::size_t kTimedFrom = 2;
/// CUPTI's clock is good to some tens of nanoseconds; shorter kernels say nothing.
constexpr double kLeastUs = 0.5;

struct ProbeProgram {
  const char* preset;
  std::uint64_t dim;  ///< 0: the preset's
  std::uint32_t batch;
  std::uint32_t seq;
  bool narrow;  ///< bfloat16 parameters, float32 sums where `fused`
  Kernels kernels;
  Optimizer optimizer;
};

constexpr auto kEager = Kernels::eager;
constexpr auto kFused = Kernels::fused;
/// Widths and lengths so far apart that a shape in between has a neighbour within an octave in each extent; every
/// family of kernels at several sizes; each optimizer.
constexpr std::array<ProbeProgram, 21> kPrograms{{
    {"llama-tiny", 512, 1, 256, true, kEager, Optimizer::adam},
    {"llama-tiny", 0, 1, 512, true, kEager, Optimizer::adam_fused},
    {"llama-tiny", 0, 2, 1024, true, kEager, Optimizer::adam},
    {"llama-tiny", 0, 4, 2048, true, kFused, Optimizer::adam_fused},
    {"llama-1b", 0, 1, 512, true, kFused, Optimizer::adam},
    {"llama-1b", 0, 1, 2048, true, kEager, Optimizer::adam_fused},
    {"llama-1b", 0, 2, 2048, true, kFused, Optimizer::sgd},
    {"llama-1b", 0, 1, 8192, true, kEager, Optimizer::adam},
    {"llama-8b", 0, 1, 256, true, kFused, Optimizer::adam_fused},
    {"llama-8b", 0, 1, 512, true, kFused, Optimizer::adam},
    {"llama-8b", 0, 1, 1024, true, kEager, Optimizer::adam_fused},
    {"llama-8b", 0, 1, 2048, true, kFused, Optimizer::adam},
    {"llama-8b", 0, 1, 4096, true, kFused, Optimizer::adam_fused},
    {"mlp", 512, 64, 1, false, kEager, Optimizer::adam},
    {"mlp", 2048, 4, 1, false, kEager, Optimizer::adam_fused},
    {"mlp", 4096, 4, 1, false, kEager, Optimizer::sgd},
    {"mlp", 8192, 8, 1, false, kEager, Optimizer::adam},
    {"mlp", 4096, 2048, 1, false, kEager, Optimizer::adam_single},
    {"mlp", 4096, 2048, 1, true, kEager, Optimizer::adam},
    {"torch-transformer", 0, 8, 128, false, kEager, Optimizer::adam},
    {"torch-transformer", 1024, 4, 512, false, kEager, Optimizer::adam_fused},
}};

Settings settings_of(const ProbeProgram& program, std::uint32_t ranks) {
  Settings settings;
  settings.gpus = ranks;
  settings.batch = program.batch;
  settings.seq = program.seq;
  if (program.narrow) settings.param_dtype = DType::bfloat16;
  if (program.narrow && program.kernels == Kernels::fused) settings.reduce_dtype = DType::float32;
  settings.kernels = program.kernels;
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
  overrides.layers = kLayers;
  if (program.dim > 0) overrides.dim = program.dim;
  const auto model = preset(program.preset, overrides);
  if (!model) return tl::unexpected(model.error());
  auto workload = generate(*model, settings, HostCosts{}, this_gpu(), true);
  if (!workload) return workload;
  auto adapted = adapt(*workload, settings);
  if (!adapted) return tl::unexpected(adapted.error());
  return std::move(adapted->workload);
}

/// The kernels of the timed steps: one a name, shape and size, the median of its times.
void add_medians(const std::vector<NotedKernel>& noted, std::span<const OpTiming> timings, OpId after,
                 const Labels& labels, std::vector<ProbedKernel>& out) {
  const auto key = [](const NotedKernel& kernel) {
    const KernelMath& math = kernel.math;
    return std::tuple(kernel.label.value, math.kind, math.dtype, math.access, math.causal, math.batch, math.m, math.n,
                      math.k, kernel.bytes);
  };
  std::map<decltype(key(noted.front())), std::pair<const NotedKernel*, std::vector<double>>> groups;
  for (const NotedKernel& kernel : noted) {
    if (kernel.op <= after || labels.text(kernel.label).empty()) continue;
    const OpTiming& timing = timings[kernel.op.value];
    const double us = (timing.end - timing.start).us();
    if (us < kLeastUs) continue;
    auto& [first, times] = groups[key(kernel)];
    if (first == nullptr) first = &kernel;
    times.push_back(us);
  }
  for (auto& [ignored, group] : groups) {
    auto& [kernel, times] = group;
    std::sort(times.begin(), times.end());
    out.push_back({labels.text(kernel->label), kernel->math, kernel->bytes, times[times.size() / 2]});
  }
}

/// Gaps between neighbours of which the second was already queued; longer ones than any launch takes are something
/// else's.
class Gaps {
 public:
  void add(const std::vector<NotedKernel>& noted, std::span<const OpTiming> timings, OpId after) {
    for (std::size_t i = 1; i < noted.size(); ++i) {
      if (noted[i - 1].op <= after || noted[i].op.value != noted[i - 1].op.value + 1) continue;
      const OpTiming& first = timings[noted[i - 1].op.value];
      const OpTiming& second = timings[noted[i].op.value];
      const double gap = (second.start - first.end).us();
      if (second.issue + kQueued > first.end || gap <= 0 || gap > kMostGap) continue;
      sum_ += gap;
      ++count_;
    }
  }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  static constexpr Nanoseconds kQueued{5000};
  static constexpr double kMostGap = 5;
  double sum_ = 0;
  std::uint64_t count_ = 0;
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
  request.bind = true;
  return request;
}

}  // namespace

double probe_host_step(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks) {
  constexpr std::int32_t kHostSteps = 12;
  constexpr std::size_t kSettled = 4;
  const Workload workload = require(host_program(HostCosts{}, this_gpu(), ranks));
  Rig rig(executor, groups, Timing::issue);
  Run ignored;
  ignored.labels = workload.labels;
  const StepOutcome outcome =
      require(run_steps(workload, workload.settings, request_of(kHostSteps, rank), *rig.device, *rig.memory, ignored));
  std::vector<double> us;
  for (std::size_t i = kSettled; i < outcome.steps.size(); ++i)
    us.push_back((outcome.steps[i].host_end - outcome.steps[i].host_begin).us());
  std::sort(us.begin(), us.end());
  return us.empty() ? 0 : us[us.size() / 2];
}

ProbedKernels probe_kernels(Executor& executor, Groups& groups, std::uint32_t rank, std::uint32_t ranks,
                            const std::function<void(std::string_view)>& say) {
  ProbedKernels out;
  Gaps gaps;
  for (const ProbeProgram& program : kPrograms) {
    const Settings settings = settings_of(program, ranks);
    const std::string name =
        fmt::format("{}{} batch {} seq {}", program.preset, program.dim > 0 ? fmt::format(" dim {}", program.dim) : "",
                    program.batch, program.seq);
    say("kernels of " + name);
    const auto workload = workload_of(program, settings);
    if (!workload) {
      out.notes.push_back(name + ": " + workload.error().what);
      continue;
    }
    Rig rig(executor, groups, Timing::activities);
    SerialDevice serial(*rig.device);
    Run ignored;
    ignored.labels = workload->labels;
    const StepOutcome outcome =
        require(run_steps(*workload, settings, request_of(kSteps, rank), serial, *rig.memory, ignored));
    const auto& steps = outcome.steps;
    if (outcome.out_of_memory || steps.size() <= kTimedFrom || !steps[kTimedFrom - 1].last_compute_op) {
      out.notes.push_back(name + " does not fit into this GPU's memory: its kernels are not timed");
      continue;
    }
    const OpId warm = *steps[kTimedFrom - 1].last_compute_op;
    add_medians(serial.kernels(), rig.device->timings(), warm, workload->labels, out.kernels);
    if (const std::string caveat = rig.device->clock().caveat(); !caveat.empty())
      out.notes.push_back(name + ": " + caveat);
    gaps.add(serial.kernels(), rig.device->timings(), warm);
  }
  out.gap = gaps.mean();
  return out;
}

}  // namespace foreshard::gpu
