// What makes the job of a plan another than one of equal ranks at its settings: options of ranks and links that are
// unlike the others, of other jobs and of chance, as they were given. A plan keeps them in its store (`job_options`),
// of which its run is not: this says of which, in the words that every verb has for it.
//
// Who: the options of `plan` and `sweep` write them; what reads a stored plan compares. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

struct JobOption {
  std::string name;  ///< "--slow-gpu"; empty: one of several, of which `words` tell
  std::vector<std::string> values;
  std::string digest = {};  ///< of what stands in the one file that `values` names; empty: they are no file
  std::string words = {};   ///< of a store without `job_options`, which tells no values
  [[nodiscard]] bool operator==(const JobOption&) const = default;
};

/// In the order of plan's help, each once.
using JobOptions = std::vector<JobOption>;

/// Appends `name` with these values; nothing where there are none.
void add_option(JobOptions& options, std::string_view name, const std::vector<std::string>& values);

/// Null: there is none of that name.
[[nodiscard]] const JobOption* find_option(const JobOptions& options, std::string_view name);

/// "--slow-gpu 5=1.2 --trials 20", as a shell takes it, or words; empty: none.
[[nodiscard]] std::string text_of(const JobOptions& options);

/// "slow_gpu", as a key of JSON, and what stands there as text of JSON: a value, several as a list, or the `file` and
/// its `digest`.
[[nodiscard]] std::string key_of(const JobOption& option);
[[nodiscard]] std::string json_of(const JobOption& option);

/// Of a plan, by its answers (Run::results). Of a store without them what other answers tell in words.
[[nodiscard]] JobOptions job_options(const std::map<std::string, std::string>& results);

/// Those of `stored` that `given` does not say anew; trials, seed and padding go with what they are of.
[[nodiscard]] JobOptions not_given(const JobOptions& stored, const JobOptions& given);

/// Something of a planned job that the run which its plan stored has not: lengths that are drawn, jitter, links that
/// flap, a job beside it.
struct NotInRun {
  std::string plan;  ///< what the plan does: "has jitter (--jitter kernels=lognormal:5%)"
  std::string run;   ///< what the run is: "without jitter"
};

/// Empty of a plan whose run is all of its job, and of every other run.
[[nodiscard]] std::vector<NotInRun> not_in_run(const Run& run);

}  // namespace foreshard
