// How an explanation is told: a report for people, and the same numbers as JSON.
//
// Who: cli's explain. Pure text; equal input gives equal bytes. Sizes in the report are binary (GiB), in JSON bytes;
// times in JSON are nanoseconds of the allocator's clock, except `step_ms`.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "cli/reports/run_answer.hpp"
#include "cli/terminal/output.hpp"
#include "core/explain/explanation.hpp"
#include "core/straggler/straggler.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/remedies.hpp"

namespace foreshard::cli {

struct ExplainReport {
  std::string path;  ///< RUN as given
  const Run& run;
  const Explanation& explanation;
  std::optional<sim::Remedies> remedies;      ///< none: not asked for, or nothing to simulate from
  std::string no_remedies;                    ///< why there are none; empty where there are
  std::string machine = {};                   ///< name of the profile that they were simulated on
  std::string fingerprint = {};               ///< of the run (fingerprint.hpp); empty: a store without
  std::optional<Stragglers> stragglers = {};  ///< none: one rank was recorded
  std::optional<Bytes> memory_limit = {};     ///< as asked for; none: the run's or the machine's
  /// Of a plan whose ranks draw lengths: it under `memory_limit`, with what its processes reserve then; none: no limit
  /// was asked for, or it was not simulated.
  std::optional<sim::Prediction> drawn = {};
  bool of_model = false;          ///< of a model's plan whose store has its own sizes alone
  std::string machine_note = {};  ///< why that is not the run's; empty where it is, or was asked for
};

/// The keys of docs/explain.md. At most `series` points of the gap over time.
[[nodiscard]] Json explain_json(const ExplainReport& report, std::size_t series);

void print_explain(std::ostream& out, const ExplainReport& report);

/// One part of reserved memory under its name, as the report, the JSON and the store's `gap` table call it.
struct NamedPart {
  std::string_view name;     ///< "pending_free"
  std::string_view meaning;  ///< one line for people
  Bytes bytes;
};
/// requested, rounding, pending_free, hard_fragmentation, soft_fragmentation, stream_fragmentation, private_pools.
[[nodiscard]] std::vector<NamedPart> named_parts(const MemoryParts& parts);

/// Sizes as they are printed: by named part, and the sums, each of which is what the lines above it come to.
struct PrintedParts {
  std::vector<Bytes> named;
  Bytes allocated = 0;
  Bytes active = 0;
};
[[nodiscard]] PrintedParts printed_memory_parts(const MemoryParts& parts);

/// Where a request that found no memory was made; invalid where that is not recorded.
[[nodiscard]] StackId stack_of(const Run& run, const FailedRequest& failed);

/// The step whose peak of reserved memory is the largest, then of allocated: of a recording whose steps differ not
/// always the one that is explained. Null where that is it, or differs by less than 1 %, or the whole record is
/// explained.
[[nodiscard]] const PeriodParts* larger_step(const Explanation& explanation);

/// Whether the run fits: of its largest step, of a record without whole steps what is explained. Under a limit that was
/// asked for: as it ran, or, where that was more, as it was simulated under the limit.
[[nodiscard]] RunAnswer fit_of(const ExplainReport& report);

/// The first line: that in words; of a run that does not fit a limit by how much, and what first makes it fit.
[[nodiscard]] std::string fit_answer(const ExplainReport& report);

/// What is over-allocated, why, and what gives most of it back.
[[nodiscard]] std::string headline(const ExplainReport& report);

/// The remedy that the headline names: of a run that retries in each step the valid one that ends that and is worth
/// most; else against the first cause, or, where there is none, the one that saves most of what is reserved beyond
/// what is allocated, of which one that costs time counts half. Null where none saves more than such a peak is
/// promised to be known to, where none was simulated, and out of memory.
[[nodiscard]] const sim::Remedy* best_remedy(const ExplainReport& report);

/// What a step is to a CUDA graph of the run's passes: "a replay of the CUDA graph"; empty: the run has none.
[[nodiscard]] std::string graph_step(const Run& run, std::int32_t step);

/// Which step it is of: "step 3 of the snapshot", "the whole record"; with graph_step().
[[nodiscard]] std::string explained_step(const Run& run, const Explanation& explanation);

}  // namespace foreshard::cli
