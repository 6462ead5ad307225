// One rank's part of `foreshard run`: the steps of a workload on its GPU, warmed up, timed without a profiler, and once
// more with CUPTI into a Run.
//
// Who: cli's run, in each rank's process. Every rank calls execute() with the same arguments. Deterministic but for
// time.
//
// With a CUDA graph (Settings::cuda_graph) each pass has the graph's eager and warm-up steps and its capture first, on
// top of those named below: what is timed and reported are replays.
//
// Three passes, each from setup on (so with fresh weights): `warmup` steps that nobody times; `skip` + `steps` steps
// with one CUDA event a step; `recorded` steps with everything recorded. The second gives step times, losses and
// gradients, the third the Run, on which CUPTI's own cost lies. Memory peaks are those of the second pass; the third
// repeats them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"
#include "core/step/step_runner.hpp"
#include "gpu/bootstrap/session.hpp"
#include "gpu/cuda/groups.hpp"

namespace foreshard::gpu {

/// Hears the gradients of one step: `bytes` is a copy on the host, valid during the call.
using GradientSink =
    std::function<void(std::int32_t step, const ShardedGradient& gradient, std::span<const char> bytes)>;

struct ExecuteRequest {
  std::int32_t warmup = 3;    ///< at least 2: the second step is the first that repeats
  std::int32_t skip = 2;      ///< steps of the timed pass that are not counted: the first allocates, the second settles
  std::int32_t steps = 10;    ///< timed
  std::int32_t recorded = 4;  ///< steps of the recorded pass; 0: none
  std::optional<Bytes> memory_limit = {};  ///< of the caching allocator
  double learning_rate = 1e-5;
  bool pace_host = false;       ///< issue no faster than the workload's host costs say (CudaDeviceOptions)
  GradientSink gradients = {};  ///< of every step of the timed pass; empty: nobody asks. Waits for the GPU each step
  /// Hears what begins now, on this rank.
  std::function<void(std::string_view what)> progress = {};
};

/// What one rank measured.
struct RankMeasurement {
  std::uint32_t rank = 0;
  std::string host;
  std::string gpu;
  std::vector<double> step_ms;          ///< end of its last op on the compute stream, less that of the step before
  std::vector<double> host_issue_ms;    ///< from a step's first call to its last; full launch queues included
  std::vector<double> losses;           ///< of this rank's batches, all steps of the timed pass; empty: not computed
  MemoryPeaks peaks;                    ///< of the last timed step
  std::vector<MemoryPeaks> step_peaks;  ///< of every step of the timed pass
  std::int64_t num_alloc_retries = 0;
};

struct Execution {
  RankMeasurement measured;
  double recorded_step_ms = 0;  ///< the recorded pass's steady step (core/run/steady_step.hpp): what CUPTI makes of it
  ProcessMemory timed_memory;   ///< of the timed pass, whose peaks `measured` has
  ProcessMemory recorded_memory;  ///< of the recorded pass, which the Run shows
  std::vector<GroupPath> paths;
  PoolCounters pools;
  Bytes fixed_bytes = 0;  ///< device memory outside the caching allocator: workspaces, staging, flags, a CUDA graph
  GraphPool graph_pool;   ///< of the timed pass, at its end
  bool computed = false;  ///< real numbers; else kernels of the same shape, bytes and duration
  bool paced = false;     ///< the host issued no faster than the workload's host costs say
  std::string nccl;       ///< version
  std::string driver;
  std::vector<std::string> caveats;
};

/// `workload` adapted to `settings`. Fills `run` as far as it comes, also where it fails: info, then the recorded pass.
/// Errors: CUDA's, NCCL's, the run's failure, out of memory (with PyTorch's numbers); the caller tells the session.
[[nodiscard]] Result<Execution> execute(const Workload& workload, const Settings& settings,
                                        const ExecuteRequest& request, Session& session, Run& run);

/// Makes this rank's GPU the current one. Errors: no driver, no GPU, fewer GPUs than ranks of this host.
[[nodiscard]] Result<void> use_gpu(const Environment& environment);

}  // namespace foreshard::gpu
