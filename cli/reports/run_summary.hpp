// A run in numbers, whatever made it: what `compare` sets side by side and `import` prints at its end.
//
// Who: verbs that read a store. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/reports/stored_trials.hpp"
#include "core/allocator/statistics.hpp"
#include "core/compare/run_totals.hpp"
#include "core/run/job_options.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

struct RunSummary {
  std::string path;
  std::string steps;  ///< which they are, in words (core/run/step_title.hpp); empty: none
  RunInfo info;
  std::vector<std::pair<std::string, std::string>> setting_options;  ///< key and JSON value, in table order
  std::size_t units = 0;                                             ///< of FSDP2, the root among them; 0: not known
  std::optional<double> step_ms;
  std::string step_ms_source;                  ///< as StepTime's, or empty; `compare` adds "timeline"
  std::optional<double> compute_ms;            ///< of the step that is reported (core/run/steady_step.hpp)
  std::optional<double> kernel_contention_ms;  ///< of `compute_ms`
  std::optional<double> communication_ms;
  std::optional<double> exposed_communication_ms;
  std::optional<double> host_ms;     ///< neither, and the host was late
  std::optional<double> other_ms;    ///< with it, compute, exposed communication and host add up to the timeline's step
  std::optional<MemoryPeaks> peaks;  ///< of the last step whose memory was recorded
  std::int64_t num_alloc_retries = 0;
  Bytes graph_pool = 0;     ///< graph_pool_bytes(): of reserved memory what every replay of a CUDA graph writes
  std::string fingerprint;  ///< of the run (fingerprint.hpp); empty: a store without
  std::vector<std::pair<std::string, double>> phases_ms;  ///< host time of that step's phases, in order
  std::string machine;                ///< its profile's name, or a recording's GPU; empty: not known
  std::optional<Bytes> memory_limit;  ///< of a plan, where it is not the machine's memory
  std::string ranks;                  ///< of a plan: how its ranks differ, as the plan said it; empty: all alike
  std::uint32_t told_rank = 0;        ///< whose the run's times and memory are
  std::string ranks_cost;             ///< then: what that costs, as the plan said it
  std::string slower;                 ///< then: slower_ranks_words()
  std::string fabric;                 ///< of a plan: --fabric; empty: the machine's
  std::string topology;               ///< of a plan: the file of --topology; empty: the machine's links
  std::string model_options;          ///< of a plan of a model: --compile and the like, as typed; empty: none
  JobOptions job_options;             ///< of a plan: of ranks, links and chance
  std::vector<NotInRun> not_in_run;   ///< what of that the numbers here are not of
  std::optional<StoredTrials> trials;
  std::optional<sim::DrawnMemory> drawn_memory;
  std::optional<Bytes> settled_reserved;  ///< of a plan: what a longer run reserves, where memory follows the GPU
  std::string no_time;                    ///< of a plan without a step time: why (step_time_unknown())
  std::string failure;                    ///< of a plan that failed: what it did (plan_failure()), and where
  std::vector<std::string> ends;          ///< of a planned job that ends before its time: how (plan_end())
  bool hangs = false;                     ///< it is one that hangs: what it did ends there, and there are no numbers
};

/// Of `run`, which was read from the store at `path`. `wanted`: of that step, and then no step
/// time; none: timed_step() and memory_step(). `memory`: the step of the memory, where that is another one.
[[nodiscard]] RunSummary summarise(const Run& run, const std::string& path, const WantedStep& wanted = {},
                                   const WantedStep& memory = {});

/// What explain's answers say of a stored plan's run that has not all of its job, one line each: not_in_run().
[[nodiscard]] std::vector<std::string> not_in_run_lines(const Run& run);

/// A text of what a plan printed as JSON, at `key` or at `member` of the object there; empty: no plan, or no such text.
[[nodiscard]] std::string plan_text(const Run& run, const std::string& key, const char* member = nullptr);

/// "41.35 ms (14.9 %) longer because of rank 5's GPU": of a plan, as it said of its step; empty: no rank makes it so.
[[nodiscard]] std::string slower_ranks_words(const Run& run);

}  // namespace foreshard::cli
