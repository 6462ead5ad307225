// The forecast: memory over thousands of training steps whose sequence lengths vary, until reserved memory stops
// growing, a request makes the allocator give segments back and try again, or the process runs out of memory.
//
// Only the allocator and the host's order run; there are no times. Who: cli's forecast; forecast_remedies.hpp. The same
// request gives the same result for any number of threads.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/allocator_process.hpp"
#include "sim/forecast/length_programs.hpp"
#include "sim/forecast/lengths.hpp"
#include "sim/parallel/part.hpp"

namespace foreshard::sim {

inline constexpr std::size_t kMaxSeeds = 1'000'000;

/// A step in which the allocator gave segments back before a request could be served.
struct RetryStep {
  std::size_t step = 0;
  std::uint32_t length = 0;
  std::int32_t retries = 0;   ///< num_alloc_retries of the step
  std::int32_t released = 0;  ///< segments given back (cudaFree)
  std::int32_t made = 0;      ///< segments asked for (cudaMalloc)
  std::string request;        ///< who asked first
  Bytes bytes = 0;            ///< and for how much
  bool served = true;         ///< false: that request found no memory in spite of it
  Nanoseconds driver = {};    ///< what the step's calls of the driver take (sim/machine/timed_memory.hpp)
};

/// A step that made reserved memory larger than in any step before; one that runs out of memory is among them.
struct GrowthStep {
  std::size_t step = 0;
  std::uint32_t length = 0;
  std::size_t segments = 0;   ///< that the driver gave in it
  Bytes bytes = 0;            ///< of these
  Bytes reserved = 0;         ///< the step's peak
  std::string request;        ///< who made the largest of them
  Bytes largest_request = 0;  ///< what that asked for
  Bytes largest_segment = 0;
};

struct FailedStep {
  std::size_t step = 0;
  std::uint32_t length = 0;
  bool before_first = false;  ///< in setup, or in the recorded step that runs before the list's: no step, no length
  std::string request;
  OutOfMemory report;
  StepUse use = {};  ///< until then
};

/// What became of one process.
struct SeedForecast {
  std::uint64_t seed = 0;
  std::vector<StepUse> steps;  ///< of those that ended; as many lengths were run
  std::vector<GrowthStep> growth;
  std::vector<RetryStep> retries;
  std::optional<FailedStep> out_of_memory;
  std::size_t driver_allocations = 0;  ///< cudaMalloc calls, or pages mapped at once, of the whole run
  std::size_t driver_frees = 0;  ///< cudaFree calls, or pages unmapped at once (num_device_free), of the whole run
  /// Steps in or behind which segments went back to the driver, which waits for the GPU: by a retry, by garbage
  /// collection, or by empty_cache().
  std::size_t steps_giving_back = 0;
  Nanoseconds driver_time = {};        ///< what its calls take, from the first on that gave something back
  bool behind_recorded_first = false;  ///< the recording's own first step ran before: ProgramSource::recorded_first()
  bool follows_recording = false;      ///< every segment lay where the recording had it

  /// The step that it ran out of memory in; SIZE_MAX where it lives.
  [[nodiscard]] std::size_t lives_until() const { return out_of_memory ? out_of_memory->step : SIZE_MAX; }
  [[nodiscard]] Bytes peak_reserved() const;
  [[nodiscard]] Bytes peak_allocated() const;
  [[nodiscard]] std::int64_t num_alloc_retries() const;
  /// cudaFree and cudaMalloc calls, where segments go back and are asked for again; where none does the calls are those
  /// of growth alone, which are made once: 0.
  [[nodiscard]] std::size_t churn() const { return driver_frees == 0 ? 0 : driver_frees + driver_allocations; }
  /// The first step with a num_alloc_retries; none: garbage collection gives segments back without one.
  [[nodiscard]] std::optional<std::size_t> first_retry() const;
  /// The last step in which reserved memory grew beyond all before; none: it never did behind setup.
  [[nodiscard]] std::optional<std::size_t> last_growth() const;
};

/// The process that steps run in.
struct ForecastProcess {
  ProcessOptions options;
  std::uint32_t empty_cache_every = 0;  ///< torch.cuda.empty_cache() behind each so many steps; 0: never
};

struct ForecastRequest {
  Lengths lengths;
  std::size_t steps = 10'000;
  std::vector<std::uint64_t> seeds{0};  ///< one process each
  ForecastProcess process;
  unsigned threads = 1;
  std::function<void(std::size_t done, std::size_t all)> on_progress = {};  ///< steps of all seeds
  std::function<void(std::size_t done, std::size_t all)> on_made = {};      ///< lengths' programs
  std::atomic<std::size_t>* count = nullptr;  ///< raised by each step, all of those that a process does not live to too
  Part part = {};  ///< of the seeds; of the others nothing is run, and what comes back is empty
  /// By seed: what is known of it, which is not run again; empty: nothing is known.
  std::vector<SeedForecast> known = {};
};

/// Runs each seed's process, and prepares the programs that it lacks: of a source that
/// ProgramSource::costs_to_prepare() those of the steps that it comes to, else, and of seeds that are known, all of
/// them before. Fails where such a length has no program.
[[nodiscard]] Result<std::vector<SeedForecast>> run_forecast(ProgramSource& programs, const ForecastRequest& request);

}  // namespace foreshard::sim
