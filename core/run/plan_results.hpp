// What the answers that a plan left in its run (Run::results) say of that run: numbers, and whether it came to its end.
//
// Who: whatever reports a stored run's steps. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// The answer under a key, where it is a number.
[[nodiscard]] std::optional<double> result_number(const Run& run, const std::string& key);

/// The answer under a key, where it is a list of texts; else empty.
[[nodiscard]] std::vector<std::string> result_texts(const Run& run, const std::string& key);

/// A member of the groups of equal ranks in the answer of a plan whose ranks differ ("ranks"), by group that has one:
/// `own_program`, `seq` or `gemms`. Ranks are the groups' lowest.
struct RankMember {
  std::uint32_t first_rank = 0;
  bool told = false;  ///< the group has the rank whose ops and memory the run is of
};
[[nodiscard]] std::vector<RankMember> ranks_with(const Run& run, const std::string& member);

/// Of a plan that ran out of memory on a rank other than 0: that one; none: of every other run.
[[nodiscard]] std::optional<std::uint32_t> out_of_memory_rank(const Run& run);

/// What kept a plan from its end: "ran out of memory", "ran out of memory on rank 5" (out_of_memory_rank()) or
/// "deadlocks"; empty: nothing did, or it is no plan. None of the steps of such a run has a time: it was simulated
/// once, without the host's calibration, and its first ones are the start of the process.
[[nodiscard]] std::string plan_failure(const Run& run);

/// Of a plan that came to its end and has no step time: why, as it says itself. Its ops have times, which are not those
/// of the planned step. Empty of every other run.
[[nodiscard]] std::string step_time_unknown(const Run& run);

/// Of a plan of a workload without times: the host's times count allocator events (StepRequest::counts_events). They
/// tell which came first, and no more.
[[nodiscard]] bool counts_events(const Run& run);
/// How a moment is said: "12.3 ms", with so many decimals; where `events` are counted "event 4,120".
[[nodiscard]] std::string moment_words(Nanoseconds time, int decimals, bool events);

/// How a planned job ends before its time (a rank that issues nothing, a link that is down for too long), as its plan
/// says it, one line each: whatever shows the run says them first. Empty of a job that goes on.
[[nodiscard]] std::vector<std::string> plan_end(const Run& run);

/// Of a plan that hangs the first step that is not whole, which a dead rank has not begun; none: of every other run,
/// and of a store of a foreshard that kept whole steps behind the hang.
[[nodiscard]] std::optional<std::int32_t> hung_step(const Run& run);
/// Whether `step` is that one, or one that its host issued behind it: it has no end.
[[nodiscard]] bool never_ends(const Run& run, const StepRecord& step);
/// Then, when the last that is known of any rank ends: a collective that ends there waits for ever.
[[nodiscard]] std::optional<Nanoseconds> hang_end(const Run& run);

/// The error of a run without ops of a GPU: its hint is that the job ends before the told rank comes to one, else that
/// no profiler trace was imported.
[[nodiscard]] Error no_device_ops(const Run& run, std::string what, std::string where);

/// Of a plan that ran out of memory the step in which it did, up to the failed request, with the peaks until then;
/// index −1: before the first step. None: it did not.
[[nodiscard]] std::optional<StepRecord> out_of_memory_step(const Run& run);

}  // namespace foreshard
